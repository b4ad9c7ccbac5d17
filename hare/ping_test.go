package hare_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hare-go/hare/hare"
)

// Ping tells of every database that cannot be used, and of none that can.
func TestPing(t *testing.T) {
	dir := t.TempDir()
	c, err := hare.Open(t.Context(), hare.Config{Connections: map[string]string{
		"good": "sqlite:" + dir + "/good.db", "lost": "sqlite:" + dir + "/nowhere/lost.db", "gone": "sqlite:" + dir + "/nowhere/gone.db",
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		err = c.Ping(t.Context())
		var database *hare.DatabaseError
		if !errors.As(err, &database) {
			t.Fatalf("want a DatabaseError, got %v", err)
		}
		for alias, told := range map[string]bool{"good": false, "lost": true, "gone": true} {
			if strings.Contains(err.Error(), `"`+alias+`"`) != told {
				t.Errorf("%q is told: %t, want %t: %v", alias, !told, told, err)
			}
		}
	}
	c.Close()
	var refused *hare.QueryError
	if err := c.Ping(t.Context()); !errors.As(err, &refused) {
		t.Errorf("closed connections: %v", err)
	}
}
