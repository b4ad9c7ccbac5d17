package proxy

import (
	"sync"
	"time"
)

// Fault is what is to happen to a message on its way to the server, or to the answer on its way back.
type Fault struct {
	Statement string // a part of the message's SQL; empty fits every message but those that open a connection
	Skip      int    // how many that fit pass first
	Answer    bool   // the message gets through, and the fault strikes the whole answer once the server has given it
	Do        Action
	Delay     time.Duration // of Delay
	Reply     Reply         // of MakeUp
}

// Action is what a fault does.
type Action uint8

// The actions.
const (
	Cut     Action = iota // break the connection
	Swallow               // lose it: the connection stays open, and nothing more comes through in either direction
	Delay                 // let it pass later, even if the client is gone by then
	Hold                  // let it pass when it is released, even if the client is gone by then
	Spoil                 // let it pass with x in place of Statement, which the server does not know: as one that lacks it would
	MakeUp                // answer it with Reply: without telling the server, or in place of the server's answer
)

// Armed is a fault that strikes once.
type Armed struct {
	Fault
	struck, passed, released chan struct{}
	once                     sync.Once
	partly                   bool // what is made up comes behind the answers to statements of the same pipeline that were passed on
}

// Struck is closed when the fault has struck. If it strikes the answer, the server has done then what it was told.
func (a *Armed) Struck() <-chan struct{} { return a.struck }

// Passed is closed when a message that was delayed or held has been sent on.
func (a *Armed) Passed() <-chan struct{} { return a.passed }

// Release lets a held message pass. It may come before the message.
func (a *Armed) Release() { a.once.Do(func() { close(a.released) }) }

// suffer does to the link what the fault says, and reports whether the message goes on.
func (l *link) suffer(a *Armed) bool {
	close(a.struck)
	switch a.Do {
	case Cut:
		l.cut()
	case Swallow:
		l.swallow()
	case Spoil, MakeUp:
		return true
	case Delay:
		select {
		case <-time.After(a.Delay):
			return true
		case <-l.proxy.closed:
		}
	case Hold:
		select {
		case <-a.released:
			return true
		case <-l.proxy.closed:
		}
	}
	return false
}
