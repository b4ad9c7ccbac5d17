package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/hare-go/hare"

// file is one Go file of the repository.
type file struct {
	path   string // from the root of the repository, with slashes
	source string
	set    *token.FileSet
	syntax *ast.File
}

// folder is the folder of the file's package.
func (f *file) folder() string { return path.Dir(f.path) }

func (f *file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// in says whether the file is in the folder or below it.
func (f *file) in(folder string) bool { return strings.HasPrefix(f.path, folder+"/") }

// at is what is wrong where.
func (f *file) at(node ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: ", f.path, f.set.Position(node.Pos()).Line) + fmt.Sprintf(format, args...)
}

// parse reads one file.
func parse(t *testing.T, name, source string) *file {
	t.Helper()
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return &file{path: name, source: source, set: set, syntax: syntax}
}

// repository reads all Go files of this module.
func repository(t *testing.T) []*file {
	t.Helper()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	var files []*file
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != root {
			hidden := strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_")
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if hidden || entry.Name() == "testdata" || err == nil {
				return fs.SkipDir
			}
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		files = append(files, parse(t, filepath.ToSlash(relative), string(source)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
