package hare

import (
	"context"
	"fmt"

	"github.com/hare-go/hare/internal/session"
)

// Distributed is the handle of a transaction over several databases, as transactions.Distributed gives it to its
// callback. It cannot commit or roll back: the callback's result decides.
type Distributed struct {
	ctx         context.Context
	xid         string
	coordinator *Client
	clients     map[string]*Client
}

// NewDistributed makes the handle, for package transactions. ctx carries an open transaction on the coordinator and on
// each participant; "" stands for the default alias. An alias that is not configured, or has no open transaction in
// ctx, is one whose client refuses every call.
func NewDistributed(ctx context.Context, xid, coordinator string, participants []string) *Distributed {
	d := &Distributed{ctx: ctx, xid: xid, clients: make(map[string]*Client, len(participants)+1)}
	for _, alias := range participants {
		client := bound(ctx, xid, alias)
		d.clients[client.alias] = client
	}
	d.coordinator = bound(ctx, xid, coordinator)
	d.clients[d.coordinator.alias] = d.coordinator
	return d
}

// bound is a client of the alias that stays in the transaction of ctx.
func bound(ctx context.Context, xid, alias string) *Client {
	client, err := clientOf(ctx, alias)
	if err != nil {
		return &Client{alias: alias, refusal: err}
	}
	level := session.From(ctx, client.db)
	if level == nil {
		return stranger(xid, alias)
	}
	inside := *client
	inside.level = level
	return &inside
}

func stranger(xid, alias string) *Client {
	return &Client{alias: alias, refusal: &QueryError{Reason: fmt.Sprintf(
		"%q is neither the coordinator nor a participant of the distributed transaction %s", alias, xid)}}
}

// Coordinator is the client of the database whose commit decides.
func (d *Distributed) Coordinator() *Client { return d.coordinator }

// Client is the client of a participant, or of the coordinator; "" is the default alias. For any other alias it is a
// client whose every call returns a [*QueryError].
func (d *Distributed) Client(alias string) *Client {
	if alias == "" {
		if client, err := clientOf(d.ctx, alias); err == nil {
			alias = client.alias
		}
	}
	if client, ok := d.clients[alias]; ok {
		return client
	}
	return stranger(d.xid, alias)
}

// Context carries every open transaction: querysets routed to these aliases join them.
func (d *Distributed) Context() context.Context { return d.ctx }

// XID is the name of the distributed transaction; it stands in the names of the prepared transactions and in the
// errors about them.
func (d *Distributed) XID() string { return d.xid }
