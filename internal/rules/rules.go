// Package rules tests the rules of this repository that no compiler checks: who imports whom, what has a comment, how
// long a file may be, and what the code must not say. CONTRIBUTING.md gives the reasons. It has no code outside its
// tests.
package rules
