"""Which form of the eigenproblem a fit takes, and what it costs."""
