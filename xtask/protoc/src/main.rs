//! Compiles `.proto` files as build scripts ask protoc to, for machines that have none.
//!
//! Knows the arguments that prost-build passes, and refuses all others:
//! `--include_imports --include_source_info -o OUT -I FOLDER... FILE...`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut output, mut includes, mut files) = (None, Vec::new(), Vec::new());
    let (mut imports, mut source_info) = (false, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--include_imports" => imports = true,
            "--include_source_info" => source_info = true,
            "-o" => output = arguments.next(),
            "-I" => includes.extend(arguments.next()),
            option if option.starts_with('-') => {
                return Err(format!("option {option} is not supported").into());
            }
            _ => files.push(argument),
        }
    }
    let mut compiler = protox::Compiler::new(includes)?;
    compiler.include_imports(imports).include_source_info(source_info).open_files(files)?;
    std::fs::write(output.ok_or("no output file: -o OUT")?, compiler.encode_file_descriptor_set())?;
    Ok(())
}
