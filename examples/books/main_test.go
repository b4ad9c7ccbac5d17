package main

import (
	"log"
	"os"
	"path/filepath"
)

// The first run makes the file, and each run adds the book once more.
func Example() {
	dir, err := os.MkdirTemp("", "books")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	before, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.Chdir(dir); err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := os.Chdir(before); err != nil {
			log.Fatal(err)
		}
	}()

	main()
	main()
	if _, err := os.Stat(filepath.Join(dir, "books.db")); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Watership Down 9.50
	// Watership Down 9.50
	// Watership Down 9.50
}
