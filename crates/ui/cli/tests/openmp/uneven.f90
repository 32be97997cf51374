! A parallel loop whose second thread works three times as long as the first one, for 300 us. It ends when the file that UNTIL
! names exists.
program main
  use mpi
  implicit none
  integer :: e, me, provided
  real(8) :: go_on, one
  logical :: ends
  character(len=4096) :: until
  call get_environment_variable('UNTIL', until)
  call mpi_init_thread(mpi_thread_funneled, provided, e)
  call mpi_comm_rank(mpi_comm_world, me, e)
  go_on = 1
  do while (go_on > 0)
    call uneven()
    inquire (file=trim(until), exist=ends)
    one = 1
    if (me == 0 .and. ends) one = 0
    call mpi_allreduce(one, go_on, 1, mpi_double_precision, mpi_min, mpi_comm_world, e)
  end do
  call mpi_finalize(e)
end program
subroutine uneven()
  implicit none
  integer :: i
  !$omp parallel do schedule(static, 1) ! uneven
  do i = 0, 1
    call work(100 + 200 * i)
  end do
  !$omp end parallel do
end subroutine
subroutine work(us)
  use mpi
  implicit none
  integer, intent(in) :: us
  real(8) :: until
  until = mpi_wtime() + us * 1d-6
  do while (mpi_wtime() < until)
  end do
end subroutine
