/* One call of transactions.Distributed, after fn. Between any two of its steps it may die, or be paused for as long as it
   likes while the others go on. */

#define VOTED_YES(i) (kind[c*N+i] == untouched || vote[c*N+i] == yes)
#define DIES         if :: goto dead :: skip fi

inline tell(what) { said[c] = what; printf("call: returns %e\n", said[c]); rules(c) }

/* branch.prepare. */
inline prepare(i) {
  if
#ifdef READERS
  :: kind[c*N+i] == untouched
  :: kind[c*N+i] == reader ->                             /* onlyRead: there is nothing to undo */
     tx[c*N+i] = committed; vote[c*N+i] = yes; printf("call: participant %d has only read, and commits\n", i)
  :: kind[c*N+i] == reader ->
     tx[c*N+i] = rolledback; vote[c*N+i] = no; printf("call: participant %d has only read, and cannot commit\n", i)
#endif
#ifdef WRITER_COMMITS_AS_READER
  :: WROTE(i) ->
     tx[c*N+i] = committed; vote[c*N+i] = yes; printf("call: participant %d commits\n", i); rules(c)
#else
  :: WROTE(i) -> prepareSent[c*N+i] = true; printf("call: sends PREPARE to participant %d\n", i)
#endif
  fi
}

inline awaitVote(i) {
  if
#ifdef READERS
  :: kind[c*N+i] == untouched
#endif
  :: d_step { WROTE(i) && vote[c*N+i] == unanswered ->    /* lost, or late: its time is up */
       vote[c*N+i] = lost; printf("call: gives up waiting for participant %d\n", i) }
#ifdef TAG_IGNORED
  :: d_step { vote[c*N+i] == no -> vote[c*N+i] = yes; printf("call: takes the answer of participant %d for a success\n", i) }
#endif
  :: vote[c*N+i] != unanswered
  fi
}

/* branch.commitPrepared, repeated until the phase's time is up. */
inline deliver(i) {
  if
  :: !WROTE(i)
  :: WROTE(i) -> commitPrepared(call, i, end); mixed = mixed || end == rolledback
  :: WROTE(i) -> commitPrepared(call, i, end); pending = true; printf("call: has no answer from participant %d\n", i)
  :: WROTE(i) -> pending = true; printf("call: does not reach participant %d\n", i)
  fi;
  end = open
}

/* branch.rollbackPrepared and branch.rollbackPossiblyPrepared, repeated likewise. */
inline takeBack(i) {
  if
  :: !WROTE(i) || vote[c*N+i] == no
  :: WROTE(i) && vote[c*N+i] != no -> pending = true; printf("call: does not reach participant %d\n", i)
  :: WROTE(i) && vote[c*N+i] == yes -> rollbackPrepared(call, i)
#ifdef GONE_WHILE_PREPARING
  :: WROTE(i) && vote[c*N+i] == lost -> rollbackPrepared(call, i)
#else
  :: d_step { WROTE(i) && vote[c*N+i] == lost -> terminated[c*N+i] = tx[c*N+i] == open };
     if                                                   /* "gone" is final when nobody can prepare it any more */
     :: tx[c*N+i] != open -> rollbackPrepared(call, i)
     :: pending = true
     fi
#endif
  fi
}

proctype Call(byte c) {
  mtype outcome = none, end = open;
  bool pending, mixed, told[N];

  /* prepare, all at once */
  atomic {
    prepare(0);
#if N == 2
    prepare(1);
#endif
  }
  awaitVote(0);
#if N == 2
  awaitVote(1);
#endif
  DIES;
#ifdef COMMIT_BEFORE_DECISION
  deliver(0);
#endif
  if
  :: EVERY(VOTED_YES)
  :: !EVERY(VOTED_YES) -> goto aborting
  :: goto aborting                                        /* the caller has cancelled it */
  fi;

  /* decide */
#ifdef READERS
  if
  :: SOME(WROTE)
  :: !SOME(WROTE) ->                                      /* nobody waits: a plain COMMIT, without a row */
     if
     :: atomic { decided[c] = true; tell(saidCommitted) }
     :: atomic { tell(saidAborted) }
     :: atomic { tell(saidAmbiguous) }                    /* CommitUnknownError */
     fi;
     goto ended
  fi;
#endif
  d_step { decisionSent[c] = true; printf("call: sends the decision\n") }; /* THE POINT OF NO RETURN */
  DIES;
  if
  :: decided[c] -> goto delivering
#ifdef REJECTED_IS_COMMITTED
  :: !decisionSent[c] && !decided[c] -> goto delivering
#else
  :: !decisionSent[c] && !decided[c] -> goto aborting     /* definitely rejected */
#endif
  :: printf("call: has no answer to the decision\n")      /* unknown: lost, late, or its time is up */
  fi;

  /* ambiguous: find out, or make it impossible */
#if defined UNKNOWN_IS_COMMITTED
  goto delivering;
#elif defined UNKNOWN_ROLLS_BACK
  goto aborting;
#endif
  if
  :: fence(call, outcome)
  :: atomic { tell(saidAmbiguous) }; goto ended
  fi;
  if
  :: outcome == commit -> goto delivering
  :: outcome == abort -> goto aborting
  fi;

delivering: /* all at once */
  do
  :: !told[0] -> deliver(0); told[0] = true; DIES
#if N == 2
  :: !told[1] -> deliver(1); told[1] = true; DIES
#endif
  :: else -> break
  od;
  atomic { end = (mixed -> saidMixed : (pending -> saidPartial : saidCommitted)); tell(end); end = open };
#if defined DELETED_UNCONFIRMED
#define MAY_DELETE true
#elif defined MIXED_IS_DELETED
#define MAY_DELETE (said[c] == saidCommitted || said[c] == saidMixed && !pending)
#else
#define MAY_DELETE (said[c] == saidCommitted)
#endif
  if /* resolve: off the caller's path, and when every participant has confirmed */
  :: d_step { MAY_DELETE && row[c] == commit ->
       row[c] = none; resolved[c] = false; printf("call: deletes its row\n") }
  :: d_step { said[c] == saidCommitted && row[c] == commit -> /* KeepDecision */
       resolved[c] = true; printf("call: marks its row as resolved\n"); rules(c) }
  :: skip
  fi;
  goto ended;

aborting: /* all at once */
  do
  :: !told[0] -> takeBack(0); told[0] = true; DIES
#if N == 2
  :: !told[1] -> takeBack(1); told[1] = true; DIES
#endif
  :: else -> break
  od;
  atomic { end = (pending -> saidRollbackPending : saidAborted); tell(end); end = open };
#ifdef ABORT_DELETED
  d_step { if :: outcome == abort -> row[c] = none; printf("call: deletes its abort row\n") :: else fi };
#endif
  goto ended;

dead:
  atomic { said[c] = died; printf("call: dies\n") };
ended:
  atomic { /* what is of no interest any more must not tell states apart */
    outcome = none; pending = false; mixed = false;
    told[0] = false; told[N-1] = false; vote[c*N] = unanswered; vote[c*N+N-1] = unanswered
  }
}
