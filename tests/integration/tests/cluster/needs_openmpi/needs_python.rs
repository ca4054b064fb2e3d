//! A program of mpi4py.

use super::*;

#[tokio::test]
async fn a_program_of_mpi4py_runs_unchanged() {
    let installed = Installed::alone();
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut mpirun = installed.at(&cluster, "require", 4);
    mpirun.arg(fabricast_testing::python().get_program());
    mpirun.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/mpi.py"));
    let (said, told) = succeeded(&ended(started(&mut mpirun)).await);
    assert_eq!(said, "ok\n", "{told}");
    assert!(told.contains("'MPI_COMM_WORLD', 4 ranks: "), "{told}");
    no_group_is_left(&cluster).await;
}
