package compile

import (
	"database/sql/driver"
	"errors"
	"fmt"
)

// slot stands for the i-th argument, from 0, while a statement is rendered. The arguments that squirrel gives back are
// then the plan of how to bind. A slot is no value: one that reached a driver would be an error, not a number.
type slot int

// Value refuses.
func (slot) Value() (driver.Value, error) {
	return nil, errors.New("compile: a slot was bound in the place of a value")
}

func (s slot) placeholder() string { return fmt.Sprintf("$%d", int(s)+1) }
