package features_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-go/hare/features"
)

func TestRequireNamesAliasBackendAndFeature(t *testing.T) {
	f := features.Features{Backend: "sqlite", SupportsTransactions: true}
	if err := features.Require("stock", f, features.Transactions); err != nil {
		t.Fatalf("a feature it has: %v", err)
	}
	err := features.Require("stock", f, features.Transactions, features.TwoPhaseCommit, features.Arrays)
	var unsupported *features.UnsupportedError
	if !errors.As(err, &unsupported) {
		t.Fatalf("got %v, want an UnsupportedError", err)
	}
	want := &features.UnsupportedError{Alias: "stock", Backend: "sqlite", Feature: features.TwoPhaseCommit}
	if diff := cmp.Diff(want, unsupported); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	for _, part := range []string{"stock", "sqlite", "SupportsTwoPhaseCommit"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
}

func TestEveryBooleanIsAFlag(t *testing.T) {
	typ := reflect.TypeFor[features.Features]()
	for i := range typ.NumField() {
		field := typ.Field(i)
		if field.Type.Kind() != reflect.Bool {
			continue
		}
		var f features.Features
		if f.Has(features.Flag(field.Name)) {
			t.Errorf("%s: set in the zero value", field.Name)
		}
		reflect.ValueOf(&f).Elem().Field(i).SetBool(true)
		if !f.Has(features.Flag(field.Name)) {
			t.Errorf("%s: not read back", field.Name)
		}
	}
}

// No database has what there is no flag for.
func TestUnknownFlag(t *testing.T) {
	for _, flag := range []features.Flag{"SupportsMagic", "Backend", "MaxBindParameters"} {
		f := features.Features{Backend: "any", MaxBindParameters: 1}
		if f.Has(flag) {
			t.Errorf("a database has %q", flag)
		}
		if err := features.Require("a", f, flag); err == nil || !strings.Contains(err.Error(), string(flag)) {
			t.Errorf("Require(%q) = %v", flag, err)
		}
	}
}
