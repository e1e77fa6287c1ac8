"""The results of the speed benchmark, as tables, plots and targets."""
