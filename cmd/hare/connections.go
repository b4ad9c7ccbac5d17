package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/hare-go/hare/hare"
)

// aliasError is a wrong call, although only the configuration can tell.
type aliasError struct{ error }

// openConnections opens the configured connections, of which none is dialled yet. alias is what an option of the command
// names; it must be one of them, unless it is empty.
func openConnections(ctx context.Context, config, option, alias string) (*hare.Connections, error) {
	loaded, err := hare.LoadConfig(config)
	if err != nil {
		return nil, err
	}
	connections, err := hare.Open(ctx, loaded)
	if err != nil {
		return nil, err
	}
	if alias != "" && !slices.Contains(connections.Aliases(), alias) {
		_, err := connections.Client(alias)
		connections.Close()
		return nil, aliasError{fmt.Errorf("%s: %w", option, err)}
	}
	return connections, nil
}
