package compile

import (
	"database/sql/driver"
	"testing"
)

func TestSlotIsNoValue(t *testing.T) {
	for _, s := range []slot{0, 1, 32766} {
		var valuer driver.Valuer = s
		if v, err := valuer.Value(); err == nil || v != nil {
			t.Errorf("slot %d gave %v, %v to a driver", int(s), v, err)
		}
	}
	if got := slot(0).placeholder(); got != "$1" {
		t.Errorf("the first placeholder is %s", got)
	}
}
