package surface

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of the exported surface anew")

// public are the packages that programs call.
var public = []string{"features", "hare", "leases", "query", "transactions"}

const tableFile = "table_test.go"

// The table has every exported function and type that the sources have. Methods need no table: a type tells its own.
func TestTableIsFresh(t *testing.T) {
	want, err := table()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(tableFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the sources have: go test ./internal/surface -run TestTableIsFresh -update", tableFile)
	}
}

// table is the source of the table.
func table() ([]byte, error) {
	var functions, types []string
	imports := []string{`"reflect"`, ""}
	for _, pkg := range public {
		imports = append(imports, fmt.Sprintf("%q", "github.com/hare-go/hare/"+pkg))
		files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, declaration := range file.Decls {
				switch d := declaration.(type) {
				case *ast.FuncDecl:
					if d.Recv == nil && d.Name.IsExported() {
						functions = append(functions, entry(pkg, d.Name, d.Type.TypeParams, "%q: %s,"))
					}
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() {
							types = append(types, entry(pkg, s.Name, s.TypeParams, "%q: reflect.TypeFor[%s](),"))
						}
					}
				}
			}
		}
	}
	slices.Sort(functions)
	slices.Sort(types)
	var b bytes.Buffer
	fmt.Fprintf(&b, "package surface\n\n// Written by TestTableIsFresh with -update.\n\nimport (\n%s\n)\n\n", strings.Join(imports, "\n"))
	fmt.Fprintf(&b, "// functions are the exported functions, by their names.\nvar functions = map[string]any{\n%s\n}\n\n", strings.Join(functions, "\n"))
	fmt.Fprintf(&b, "// types are the exported types, by their names.\nvar types = map[string]reflect.Type{\n%s\n}\n", strings.Join(types, "\n"))
	return format.Source(b.Bytes())
}

// entry is a line of the table. What takes type parameters is taken with a model for each.
func entry(pkg string, name *ast.Ident, parameters *ast.FieldList, form string) string {
	full := pkg + "." + name.Name
	with := full
	if n := parameters.NumFields(); n > 0 {
		with += "[" + strings.TrimSuffix(strings.Repeat("model, ", n), ", ") + "]"
	}
	return fmt.Sprintf(form, full, with)
}
