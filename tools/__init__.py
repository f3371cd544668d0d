"""What tests, benchmarks and the documentation share, so that none of them imports another."""
