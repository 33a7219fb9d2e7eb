"""What the calculus says of a query beside the path that is run: state and answer, degree and cost, merge monoids."""
