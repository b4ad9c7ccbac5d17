package postgres_test

import (
	"testing"

	"github.com/hare-go/hare/integration/servers"
)

// TestMain ends the server that the tests share.
func TestMain(m *testing.M) { servers.Main(m) }
