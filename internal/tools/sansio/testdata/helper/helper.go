// Package helper is imported by the packages beside it.
package helper

// Number is what they import it for.
const Number = 1
