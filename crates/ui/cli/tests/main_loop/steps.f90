! The same in Fortran, whose loops count down by themselves.
module flow
  use mpi
  implicit none
  double precision :: state = 1d0
contains
  subroutine compute(count)
    integer, intent(in) :: count
    integer :: index
    do index = 1, count
      state = state + sqrt(index + state) * 1d-9
    end do
  end subroutine compute

  subroutine solve(rank, ranks, steps)
    integer, intent(in) :: rank, ranks, steps
    double precision :: out(40), in(40), total
    integer :: step, exchange, error
    out = 0d0
    do step = 1, steps
      do exchange = 1, 5
        call compute(2000)
        call MPI_Sendrecv(out, 40, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 1, in, 40, MPI_DOUBLE_PRECISION, &
                          mod(rank + ranks - 1, ranks), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
      end do
      if (mod(step, 4) /= 0) cycle
      call MPI_Allreduce(state, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    end do
  end subroutine solve
end module flow

program steps_of_five
  use flow
  implicit none
  integer :: rank, ranks, error
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call solve(rank, ranks, 1000000000)
  call MPI_Finalize(error)
end program steps_of_five
