"""What a program says to framejit: directives in force, stances, and declarations of functions. It knows no driver."""
