package schema

import "github.com/hare-go/hare/hare/backend"

// Nearest is the known name that name was probably meant to be, or "" if none is near.
func Nearest(name string, known []string) string { return backend.Nearest(name, known) }
