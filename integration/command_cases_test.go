package integration

import (
	"strings"
)

func commandReportsAndFinishes(c *command) {
	config := c.configuration(nil)
	decided, open := c.crashed(isCommitPrepared), c.crashed(isDecision)
	r := c.run(config, "--older-than", "0")
	c.want(r, 1, decided+"\n", open+"\n", "COMMIT PREPARED", "ROLLBACK PREPARED", "  needed  note\n", "the decision to commit is durable", "no decision", "4 waiting",
		"to finish: hare distributed-recover --coordinator c --config "+config+" --older-than 0 --finish\n")
	if len(c.prepared("a")) != 2 || len(c.prepared("b")) != 2 || c.decisions("true") != 1 || c.decisions("resolved_at IS NULL") != 1 {
		c.Error("reporting has written something")
	}
	c.want(c.run(config, "--older-than", "0", "--finish"), 0, decided+"\n", open+"\n", "done", "4 finished, 0 not")
	c.wantCounts(1, 1, 1)
	c.wantNothingPrepared()
	for _, finish := range [][]string{nil, {"--finish"}} {
		r := c.run(config, append(finish, "--older-than", "0")...)
		c.want(r, 0, `coordinator "c": no distributed transaction is waiting`)
		if r.errs != "" {
			c.Errorf("nothing is left, and it complains: %s", r.errs)
		}
	}
}

func commandLeavesYoungOnesAlone(c *command) {
	c.crash(isDecision)
	c.want(c.run(c.configuration(nil), "--finish"), 0, "2 younger than 300 s, left to their calls", "--older-than 0")
	if len(c.prepared("a")) != 1 || len(c.prepared("b")) != 1 {
		c.Error("they were touched")
	}
}

func commandOneTransaction(c *command) {
	config := c.configuration(nil)
	decided, open := c.crashed(isCommitPrepared), c.crashed(isDecision)
	c.want(c.run(config, "--older-than", "0", "--xid", open), 1, "decision: none\n", "2 waiting", "--xid "+open+" --finish\n")
	c.want(c.run(config, "--older-than", "0", "--xid", decided), 1, `decision: commit; its writes are in "c"; they wait to be committed in "a", "b"`)
	r := c.run(config, "--older-than", "0", "--xid", open, "--finish")
	c.want(r, 0, "2 finished, 0 not")
	for _, alias := range participants {
		if got := c.prepared(alias); len(got) != 1 || got[0] != decided+":"+alias {
			c.Errorf("prepared in %s: %q, want the other transaction as it was", alias, got)
		}
	}
	if strings.Contains(r.out, decided) || c.decisions("resolved_at IS NULL") != 1 {
		c.Errorf("the other transaction was touched:\n%s", r.out)
	}
	c.want(c.run(config, "--xid", open), 0, "decision: abort; since that was written it can never be committed", "nothing of it is waiting")
	c.want(c.run(config, "--older-than", "0", "--xid", decided, "--finish"), 0, `its writes are in "c", "a", "b"`)
	c.want(c.run(config, "--xid", decided), 0, "decision: commit, and resolved", "or it was forgotten")
	c.exec("c", "DELETE FROM public.hare_distributed_decisions WHERE xid = '"+decided+"'")
	c.want(c.run(config, "--xid", decided), 0, "decision: none, and nothing of it is prepared", "its row was removed", "rolled back")
	c.wantCounts(1, 1, 1)
}

func commandForgets(c *command) {
	config := c.configuration(nil)
	xid := c.crashed(isCommitPrepared)
	c.want(c.run(config, "--forget", xid, "--finish"), 1, "can still be finished", "--xid "+xid)
	c.exec("b", "ROLLBACK PREPARED '"+xid+":b'")
	c.want(c.run(config, "--forget", xid, "--finish"), 1, `can still be finished on "a"`)
	if c.decisions("resolved_at IS NULL") != 1 || len(c.prepared("a")) != 1 {
		c.Fatal("it was forgotten, or finished")
	}
	c.want(c.run(config, "--older-than", "0", "--finish"), 1, "mixed", "1 finished, 1 not", "--forget "+xid+"\n")
	c.wantCounts(1, 1, 0)

	told := c.run(config, "--forget", xid)
	c.want(told, 1, "Forgetting it would mean:", `its writes are in "c", "a"; they are lost in "b"`, `write by hand into "b"`, `has written in "c", "a"`, "not reported any more", "--forget "+xid+" --finish\n")
	c.want(c.run(config, "--older-than", "0"), 1, "mixed")
	if c.decisions("resolved_at IS NULL") != 1 {
		c.Error("telling has forgotten it")
	}
	c.want(c.run(config, "--forget", xid, "--finish"), 0, "forgotten", "Forgetting it means:")
	c.want(c.run(config, "--older-than", "0"), 0, "no distributed transaction is waiting")
	c.want(c.run(config, "--xid", xid), 0, "decision: commit, and resolved")
	c.want(c.run(config, "--forget", xid, "--finish"), 1, "nothing to forget")
	c.wantCounts(1, 1, 0)
}

// A participant's database is gone for good.
func commandForgetsALostDatabase(c *command) {
	xid := c.crashed(isCommitPrepared)
	config := c.configuration(func(urls map[string]string) { delete(urls, "b") })
	c.want(c.run(config, "--older-than", "0", "--finish"), 1, "no configured connection leads to its database", "1 finished, 1 not", "--forget "+xid+"\n")
	c.want(c.run(config, "--forget", xid), 1, `its writes are in "c", "a"; it is not known whether they are in "b"`, `look into "b"`)
	c.want(c.run(config, "--forget", xid, "--finish"), 0, "forgotten")
	c.want(c.run(config, "--older-than", "0"), 0, "no distributed transaction is waiting")
	// It was not: what is forgotten is not undecided.
	c.want(c.run(c.configuration(nil), "--older-than", "0", "--finish"), 0, "COMMIT PREPARED", "done")
	c.wantCounts(1, 1, 1)
}

func commandUnreachableParticipant(c *command) {
	xid := c.crashed(isCommitPrepared)
	c.want(c.run(c.configuration(unreachable(c.T, "b")), "--older-than", "0", "--finish"), 1, `! "b" could not be looked at`, "next: run this again when it can be", "1 finished, 1 not")
	c.wantCounts(1, 1, 0)
	c.want(c.run(c.configuration(nil), "--older-than", "0", "--xid", xid, "--finish"), 0, `its writes are in "c", "a", "b"`)
	c.wantCounts(1, 1, 1)
}

func commandAnotherRole(c *command) {
	c.crash(isCommitPrepared)
	name, url := c.role("a")
	owner := c.text("a", "SELECT current_user::text")
	config := c.configuration(func(urls map[string]string) { urls["a"] = url })
	c.want(c.run(config, "--older-than", "0", "--finish"), 1, "42501", "1 finished, 1 not", `next: in `+config+` let "a" log in as "`+owner+`", and run this again`)
	c.want(c.run(c.configuration(nil), "--older-than", "0", "--finish"), 0, "1 finished, 0 not")
	c.wantCounts(1, 1, 1)

	_, url = c.role("c")
	config = c.configuration(func(urls map[string]string) { urls["c"] = url })
	c.want(c.run(config, "--finish"), 1, "permission denied", "next: give the role", "public.hare_distributed_decisions")
	if name == owner {
		c.Error("the other role is the owner")
	}
}

// Whatever is wrong with the coordinator is said, with what to do, and touches nothing.
func commandCoordinatorCannotBeUsed(c *command) {
	xid := c.crashed(isDecision)
	finish := []string{"--older-than", "0", "--finish"}
	c.want(c.run(c.configuration(unreachable(c.T, "c")), finish...), 1, `next: the decisions are in the database of "c": when it answers, run this again`)
	c.want(c.run(c.configuration(func(urls map[string]string) { urls["c"] = "sqlite::memory:" }), finish...), 1, `connection "c" (sqlite)`, "next: name the connection to a PostgreSQL database that coordinates")
	c.want(c.run(c.configuration(func(urls map[string]string) { delete(urls, "c") }), finish...), 2, `there is no such connection`, `"c"`)
	c.want(c.run(c.T.TempDir()+"/none.yml", finish...), 1, "next: name the configuration with --config FILE")

	swapped := c.configuration(func(urls map[string]string) { urls["c"], urls["a"] = urls["a"], urls["c"] })
	c.want(c.run(swapped, finish...), 0, "has never coordinated a distributed transaction")
	c.want(c.run(swapped, "--xid", xid), 1, "it was made by another database", `whose alias was "c"`)

	c.exec("c", "UPDATE public.hare_distributed_coordinator SET database_oid = '1'") // what a copy would find
	c.want(c.run(c.configuration(nil), finish...), 1, "it is a copy", "delete the row")
	if len(c.prepared("a")) != 1 || len(c.prepared("b")) != 1 {
		c.Error("something was touched")
	}
}
