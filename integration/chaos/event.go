package main

import (
	"fmt"
	"time"
)

// kind is what the nemesis does.
type kind string

// What can be done to a worker, to a server, and to the links to a server.
const (
	killWorker  kind = "kill worker"  // SIGKILL; another takes its place
	pauseWorker kind = "pause worker" // SIGSTOP, SIGCONT

	killServer    kind = "kill server"    // SIGKILL to all its processes; started again
	pauseServer   kind = "pause server"   // frozen
	restartServer kind = "restart server" // shut down in order, started again
	endSessions   kind = "end sessions"   // half of the sessions are terminated

	cutLink     kind = "cut link"     // connections are reset, and new ones refused
	stallLink   kind = "stall link"   // nothing arrives; at the end it does, late
	loseLink    kind = "lose link"    // nothing arrives; at the end what was on its way is lost
	stallAnswer kind = "stall answer" // requests arrive, answers do not; at the end they do
	loseAnswer  kind = "lose answer"  // requests arrive, answers do not; at the end they are lost
	lateMessage kind = "late message" // one message, or its answer, is late; other connections work
	madeUp      kind = "made up"      // one message is answered with an error that its server never said, or its answer is lost for one

	killStandby  kind = "kill standby"  // SIGKILL to all its processes; started again
	pauseStandby kind = "pause standby" // frozen
	failOver     kind = "fail over"     // the standby is killed, then the server; the standby takes over

	misleadPooler kind = "mislead pooler" // clients of a database are led to its twin, and back
)

// event is one thing that is done to one target.
type event struct {
	at     time.Duration // since the beginning
	kind   kind
	whom   string        // the target, for people
	number int           // of the worker or the server
	worker int           // of a link: whose, or everybody
	last   time.Duration // how long it lasts
	word   string        // it waits for this word on the target's links, for aimTime at most
	when   moment
	reply  string // what is made up: one of replies
}

// elsewhere says that an event waits for its word on the way to the other servers: what may suffer from a decision that is
// delivered is the server that made it.
func (e event) elsewhere() bool { return e.class() == ofServer && e.word == delivery }

// moment is when an event happens that waits for a word.
type moment string

const (
	atWord      moment = "at"     // the word goes on meanwhile
	beforeWord  moment = "before" // the word waits
	afterAnswer moment = "after"  // the answer to the word waits
)

// The words that the messages of a commit are known by. A fault at random mostly meets a callback; one that is aimed
// meets the commit.
const (
	decision = "INSERT INTO public.hare_distributed_decisions"
	delivery = "COMMIT PREPARED"
)

// words has the abort row, too: it is an INSERT of the same table.
var words = []string{"PREPARE TRANSACTION", decision, decision, delivery, "ROLLBACK PREPARED"}

// aimTime is how long an event waits for its word.
const aimTime = time.Second

// class is what an event is done to.
type class uint8

const (
	ofWorker class = iota
	ofServer
	ofLink
	ofStandby
	ofPooler
)

func (e event) class() class {
	switch e.kind {
	case killWorker, pauseWorker:
		return ofWorker
	case killServer, pauseServer, restartServer, endSessions, failOver:
		return ofServer
	case killStandby, pauseStandby:
		return ofStandby
	case misleadPooler:
		return ofPooler
	}
	return ofLink
}

// ends says that an event has come to its end before any failover: it is about a server, or what is beside one.
func (e event) ends() bool { return e.class() != ofWorker && e.class() != ofLink && e.kind != failOver }

// target is whose events do not overlap: a worker, a server, the links to a server, its standby, or its pooler.
type target struct {
	class  class
	number int
}

func (e event) target() target { return target{e.class(), e.number} }

// everybody's links are broken at once.
const everybody = -1

// String is the event as the schedule prints it.
func (e event) String() string {
	text := fmt.Sprintf("%7.2fs  %-14s  %-8s  %5.2fs", e.at.Seconds(), e.kind, e.whom, e.last.Seconds())
	if e.word != "" {
		text += fmt.Sprintf("  %s %s", e.when, e.word)
	}
	if e.reply != "" {
		text += ", as " + e.reply
	}
	if e.elsewhere() {
		text += " elsewhere"
	}
	return text
}
