package main

import (
	"errors"
	"io"
	"time"

	"github.com/hare-go/hare/leases"
)

// The JSON form of what leases lists, which docs/leases.md documents. Names and meanings are stable, and every field is
// always there; a later version may add some. leasesVersion changes when one changes its meaning or goes.
const leasesVersion = 1

type (
	jsonLeases struct {
		Version     int               `json:"version"`
		At          time.Time         `json:"at"`
		Leases      []jsonLease       `json:"leases"`
		Clean       bool              `json:"clean"`
		Error       string            `json:"error"`
		Unreachable []jsonUnreachable `json:"unreachable"`
		Release     string            `json:"release"`
		Token       int64             `json:"token"`
		Finish      bool              `json:"finish"`
		Released    bool              `json:"released"`
		BlockedBy   []string          `json:"blocked_by"`
	}
	jsonLease struct {
		Alias            string    `json:"alias"`
		Name             string    `json:"name"`
		Held             bool      `json:"held"`
		Holder           string    `json:"holder"`
		Token            int64     `json:"token"`
		Acquired         time.Time `json:"acquired_at"`
		Renewed          time.Time `json:"renewed_at"`
		Expires          time.Time `json:"expires_at"`
		AgeSeconds       float64   `json:"age_seconds"`
		RenewedSeconds   float64   `json:"renewed_seconds"`
		RemainingSeconds float64   `json:"remaining_seconds"`
		FreeSeconds      float64   `json:"free_seconds"`
	}
)

// writeJSON prints what was found for programs, as one object. The leases are written as they are read, and what they come
// to after them.
func (f *foundLeases) writeJSON(out io.Writer) error {
	return streamJSON(out, "leases", "  ", f.asJSON, func(yield func(any) bool) {
		for i := range f.databases {
			d := &f.databases[i]
			for list := range d.portions() {
				for _, lease := range list {
					if !yield(asJSON(d.alias, lease)) {
						return
					}
				}
			}
		}
	})
}

// asJSON is the object without its leases.
func (f *foundLeases) asJSON() any {
	form := jsonLeases{
		Version: leasesVersion, At: f.at.UTC().Truncate(time.Millisecond), Clean: f.status() == exitOK, Error: message(f.err),
		Leases: []jsonLease{}, Unreachable: []jsonUnreachable{}, BlockedBy: []string{},
		Release: f.opts.release, Token: f.opts.token, Finish: f.opts.finish, Released: f.released,
	}
	for _, d := range f.databases {
		if d.err != nil {
			form.Unreachable = append(form.Unreachable, jsonUnreachable{Alias: d.alias, Error: message(d.err)})
		}
	}
	if blocked := (*leases.BlockedError)(nil); errors.As(f.err, &blocked) {
		form.BlockedBy = append(form.BlockedBy, blocked.By...)
	}
	return form
}

func asJSON(alias string, i leases.Info) jsonLease {
	form := jsonLease{
		Alias: alias, Name: i.Name, Held: i.Held(), Holder: i.Holder, Token: i.Token,
		Acquired: i.Acquired.UTC(), Renewed: i.Renewed.UTC(), Expires: i.Expires.UTC(),
		AgeSeconds: i.Now.Sub(i.Acquired).Seconds(), RenewedSeconds: i.Now.Sub(i.Renewed).Seconds(), RemainingSeconds: i.Remaining.Seconds(),
	}
	if !form.Held {
		form.FreeSeconds = i.Now.Sub(i.Expires).Seconds()
	}
	return form
}
