// Package surface tests what programs can call: it finds every exported function and method of hare by itself, and calls each with
// what a program passes by mistake. It has no code outside its tests.
package surface
