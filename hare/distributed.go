package hare

import (
	"context"
	"fmt"
	"maps"
	"slices"

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
	d := &Distributed{xid: xid, clients: make(map[string]*Client, len(participants)+1)}
	var levels []*session.Level
	for _, alias := range append([]string{coordinator}, participants...) {
		client := bound(ctx, xid, alias)
		d.clients[client.alias] = client
		if d.coordinator == nil {
			d.coordinator = client
		}
		if client.level != nil {
			levels = append(levels, client.level)
		}
	}
	if ctx != nil {
		d.ctx = session.Enclose(ctx, session.Enclosure{Transaction: xid, Members: slices.Sorted(maps.Keys(d.clients))}, levels...)
	}
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
func (d *Distributed) Coordinator() *Client {
	if d == nil || d.coordinator == nil {
		return stranger("", "")
	}
	return d.coordinator
}

// Client is the client of a participant, or of the coordinator; "" is the default alias. For any other alias it is a
// client whose every call returns a [*QueryError].
func (d *Distributed) Client(alias string) *Client {
	if d == nil || d.coordinator == nil {
		return stranger("", alias)
	}
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

// Context carries every open transaction, so that querysets routed to these aliases join them. It is the ctx for everything
// that the callback does:
//
//	ctx := d.Context() // shadows the ctx outside, with which a write would leave the transaction
//
// It is closed to every other database: a statement, Atomic, Distributed or hook on an alias that takes no part is a
// [*QueryError], because its write would stay when the transaction is rolled back. What is to stay is written with the ctx
// outside.
func (d *Distributed) Context() context.Context {
	if d == nil || d.coordinator == nil {
		return nil // which every call refuses
	}
	return d.ctx
}

// XID is the name of the distributed transaction; it stands in the names of the prepared transactions and in the
// errors about them.
func (d *Distributed) XID() string {
	if d == nil {
		return ""
	}
	return d.xid
}
