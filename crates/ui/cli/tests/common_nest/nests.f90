! Self-consistent passes inside of time steps, in Fortran: 3 + 4 * (4 + mod(step, 3)) calls of MPI per step, and a
! sum in every fourth. It runs until it is ended.
module fields
  use mpi
  implicit none
  integer :: rank, ranks, error
  double precision :: a(20000), b(20000)
contains
  subroutine work(rounds)
    integer, intent(in) :: rounds
    integer :: round
    do round = 1, rounds
      b(2:19999) = 0.5d0 * (a(1:19998) + a(3:20000)) + 1d-9 * round
    end do
    a(6) = b(8)
  end subroutine

  subroutine exchange()
    integer :: requests(2), statuses(MPI_STATUS_SIZE, 2)
    call MPI_Irecv(a, 10, MPI_DOUBLE_PRECISION, modulo(rank - 1, ranks), 0, MPI_COMM_WORLD, requests(1), error)
    call MPI_Isend(b, 10, MPI_DOUBLE_PRECISION, modulo(rank + 1, ranks), 0, MPI_COMM_WORLD, requests(2), error)
    call MPI_Waitall(2, requests, statuses, error)
  end subroutine

  double precision function total(mine)
    double precision, intent(in) :: mine
    call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  end function

  subroutine converge(passes)
    integer, intent(in) :: passes
    integer :: pass
    do pass = 1, passes ! INNER
      call work(20)
      call exchange()
      if (total(a(4)) < -1d0) exit
    end do
  end subroutine
end module

program main
  use fields
  integer(8) :: step
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  a = 1
  b = 0
  do step = 1, huge(step) ! LOOP
    call work(20)
    call exchange()
    call converge(4 + int(mod(step, 3_8)))
    if (mod(step, 4_8) == 0) a(9) = total(1d0)
  end do
  call MPI_Finalize(error)
end program
