// Package examples has no code of its own: each folder below it is a program that can be run, and the test here compares
// the pages that quote them with what they are.
package examples
