/* Open MPI's op.h includes a header of this name, which Debian's libopenmpi-dev leaves out. op.h
 * needs the following of it, which holds where MPI_Fint is an int. */
#define OMPI_INT_2_FINT(number) (number)
