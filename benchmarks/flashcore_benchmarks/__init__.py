"""What flashcore-bench and flashcore-tune are made of."""
