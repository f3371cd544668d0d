"""Templates of tasks, a module for each profession. `drawing` is what they draw with, `catalogue` lists them."""
