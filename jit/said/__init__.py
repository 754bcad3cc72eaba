"""The statements of a program to framejit: directives in force, stances, and declarations of functions. It knows no driver."""
