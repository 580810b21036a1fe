"""What people look at, and what decides nothing: tables, figures and HTML reports; what draws them loads on use."""
