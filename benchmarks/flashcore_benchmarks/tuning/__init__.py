"""What flashcore-tune is made of."""
