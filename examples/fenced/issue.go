package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hare-go/hare/hare"
	"github.com/hare-go/hare/leases"
	"github.com/hare-go/hare/transactions"
)

// Issue is one issue of the catalogue.
type Issue struct {
	ID        int64
	Term      int64     // who has written it
	CreatedAt time.Time `hare:"auto_now_add"`
}

// Issues is the queryset of all issues.
var Issues = hare.Objects[Issue]()

// Publish writes the next issue and has it printed.
func Publish(ctx context.Context, term *leases.Term, printer string) error {
	issue := Issue{Term: term.Token()}
	err := transactions.Atomic(ctx, func(ctx context.Context) error {
		if err := term.Fence(ctx); err != nil { // first: whoever has the next term waits until this is committed
			return err
		}
		return Issues.Create(ctx, &issue)
	})
	if err != nil {
		return err
	}
	return order(ctx, printer, term.Token(), issue.ID)
}

// order sends an issue to the printer. The fence ended with the transaction, so the token goes with the order.
func order(ctx context.Context, printer string, token, issue int64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/issues/%d", printer, issue), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Fencing-Token", strconv.FormatInt(token, 10))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the printer refuses issue %d of term %d: %s", issue, token, response.Status)
	}
	return nil
}
