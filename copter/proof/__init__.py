"""What is known of an answer: prices of all columns, bounds, certificates and rays."""
