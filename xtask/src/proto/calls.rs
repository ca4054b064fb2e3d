//! Makes the generated code call `proto/src/calls.rs` for calls with one request.

use anyhow::{Context, Result, bail};
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Arm, Expr, ExprMethodCall, ImplItemFn, ItemImpl, Pat, parse_quote};

/// Rewrites the generated code.
///
/// # Errors
///
/// Code that is no Rust, or that holds a call in a form that is not known here.
pub(super) fn share(generated: &str) -> Result<String> {
    let mut file = syn::parse_file(generated).context("parse the generated code")?;
    let mut rewrite = Rewrite::default();
    rewrite.visit_file_mut(&mut file);
    if let Some(call) = rewrite.unknown {
        bail!("the generated code of {call} is not of the form that tonic-build wrote before");
    }
    Ok(prettyplease::unparse(&file))
}

#[derive(Default)]
struct Rewrite {
    /// A call that could not be rewritten.
    unknown: Option<String>,
}

impl VisitMut for Rewrite {
    /// Clients: the method of a call.
    fn visit_impl_item_fn_mut(&mut self, function: &mut ImplItemFn) {
        let mut found = Found::default();
        found.visit_block(&function.block);
        if found.is_unary_client {
            let path = found.path.unwrap_or_default();
            match path.strip_prefix('/').and_then(|path| path.split_once('/')) {
                Some((service, method)) => {
                    function.block = parse_quote!({
                        let method = GrpcMethod::new(#service, #method);
                        crate::calls::unary(&mut self.inner, #path, method, request.into_request())
                            .await
                    });
                }
                None => self.unknown = Some(function.sig.ident.to_string()),
            }
            return;
        }
        visit_mut::visit_impl_item_fn_mut(self, function);
    }

    /// Servers: the arm of a call.
    fn visit_arm_mut(&mut self, arm: &mut Arm) {
        let Pat::Lit(path) = &arm.pat else { return };
        let mut found = Found::default();
        found.visit_expr(&arm.body);
        let Some(kind) = found.kind else { return };
        let Some(answer) = found.answer else {
            let syn::Lit::Str(path) = &path.lit else { return };
            self.unknown = Some(path.value());
            return;
        };
        let serve: syn::Path = match kind {
            Kind::Unary => parse_quote!(crate::calls::serve_unary),
            Kind::ServerStream => parse_quote!(crate::calls::serve_stream),
        };
        arm.body = parse_quote!({
            let limits = crate::calls::ServerLimits {
                accept_compression: self.accept_compression_encodings,
                send_compression: self.send_compression_encodings,
                max_decoding: self.max_decoding_message_size,
                max_encoding: self.max_encoding_message_size,
            };
            let inner = Arc::clone(&self.inner);
            #serve(limits, req, |request| async move { #answer(&inner, request).await })
        });
    }
}

/// Kind of a call that is rewritten.
#[derive(Clone, Copy)]
enum Kind {
    Unary,
    ServerStream,
}

/// Facts about the generated code of one call.
#[derive(Default)]
struct Found {
    is_unary_client: bool,
    path: Option<String>,
    kind: Option<Kind>,
    /// `<T as Service>::method`.
    answer: Option<Expr>,
}

impl<'code> Visit<'code> for Found {
    fn visit_expr_method_call(&mut self, call: &'code ExprMethodCall) {
        self.is_unary_client |= call.method == "unary" && is_client(&call.receiver);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'code syn::ExprCall) {
        if let Expr::Path(function) = &*call.func {
            let name = function.path.segments.last().map(|segment| segment.ident.to_string());
            if function.qself.is_some() {
                self.answer = Some((*call.func).clone());
            } else if let (Some("from_static"), Some(Expr::Lit(path))) =
                (name.as_deref(), call.args.first())
                && let syn::Lit::Str(path) = &path.lit
            {
                self.path = Some(path.value());
            }
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_item_impl(&mut self, item: &'code ItemImpl) {
        let name = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        match name.map(|segment| segment.ident.to_string()).as_deref() {
            Some("UnaryService") => self.kind = Some(Kind::Unary),
            Some("ServerStreamingService") => self.kind = Some(Kind::ServerStream),
            _ => {}
        }
        visit::visit_item_impl(self, item);
    }
}

/// True for `self.inner`.
fn is_client(receiver: &Expr) -> bool {
    matches!(receiver, Expr::Field(field) if matches!(&field.member, syn::Member::Named(name) if name == "inner"))
}
