//! Tells the linker the name under which programs find the library, and that it stays loaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Programs keep this name; it changes with the interface (`libfabricast.so.<n>`).
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfabricast.so.0");
    // Its threads may outlive a `dlclose`, whose caller cannot know.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
