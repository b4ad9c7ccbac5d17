/* One call of transactions.Distributed, after fn. Between any two of its steps it may die, or be paused for as long as it
   likes while the others go on. */

#define VOTED_YES(i) (kind[c*N+i] == untouched || vote[c*N+i] == yes)
#define DIES         if :: goto dead :: skip fi

/* branch.prepare. */
inline prepare(i) {
  if
#ifdef READERS
  :: kind[c*N+i] == untouched
  :: kind[c*N+i] == reader -> tx[c*N+i] = committed; vote[c*N+i] = yes /* commitReader: there is nothing to undo */
  :: kind[c*N+i] == reader -> tx[c*N+i] = rolledback; vote[c*N+i] = no
#endif
#ifdef WRITER_COMMITS_AS_READER
  :: WROTE(i) -> d_step { tx[c*N+i] = committed; vote[c*N+i] = yes; rules(c) }
#else
  :: WROTE(i) -> prepareSent[c*N+i] = true
#endif
  fi
}

inline awaitVote(i) {
  if
#ifdef READERS
  :: kind[c*N+i] == untouched
#endif
  :: d_step { WROTE(i) && vote[c*N+i] == unanswered -> vote[c*N+i] = lost } /* or late: its time is up */
#ifdef TAG_IGNORED
  :: d_step { vote[c*N+i] == no -> vote[c*N+i] = yes }
#endif
  :: vote[c*N+i] != unanswered
  fi
}

/* branch.commitPrepared, repeated until the phase's time is up. */
inline deliver(i) {
  if
  :: !WROTE(i)
  :: WROTE(i) -> commitPrepared(i, end); mixed = mixed || end == rolledback
  :: WROTE(i) -> commitPrepared(i, end); pending = true   /* done, but every answer was lost */
  :: WROTE(i) -> pending = true                           /* not reached */
  fi;
  end = open
}

/* branch.rollbackPrepared and branch.rollbackPossiblyPrepared, repeated likewise. */
inline takeBack(i) {
  if
  :: !WROTE(i) || vote[c*N+i] == no
  :: WROTE(i) && vote[c*N+i] != no -> pending = true      /* not reached */
  :: WROTE(i) && vote[c*N+i] == yes -> rollbackPrepared(i)
#ifdef GONE_WHILE_PREPARING
  :: WROTE(i) && vote[c*N+i] == lost -> rollbackPrepared(i)
#else
  :: d_step { WROTE(i) && vote[c*N+i] == lost -> terminated[c*N+i] = tx[c*N+i] == open };
     if                                                   /* "gone" is final when nobody can prepare it any more */
     :: tx[c*N+i] != open -> rollbackPrepared(i)
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
     :: d_step { decided[c] = true; said[c] = saidCommitted; rules(c) }
     :: d_step { said[c] = saidAborted; rules(c) }
     :: d_step { said[c] = saidAmbiguous; rules(c) }      /* CommitUnknownError */
     fi;
     goto ended
  fi;
#endif
  decisionSent[c] = true;                                 /* THE POINT OF NO RETURN */
  DIES;
  if
  :: decided[c] -> goto delivering
#ifdef REJECTED_IS_COMMITTED
  :: !decisionSent[c] && !decided[c] -> goto delivering
#else
  :: !decisionSent[c] && !decided[c] -> goto aborting     /* definitely rejected */
#endif
  :: skip                                                 /* unknown: lost, late, or its time is up */
  fi;

  /* ambiguous: find out, or make it impossible */
#if defined UNKNOWN_IS_COMMITTED
  goto delivering;
#elif defined UNKNOWN_ROLLS_BACK
  goto aborting;
#endif
  if
  :: fence(outcome)
  :: d_step { said[c] = saidAmbiguous; rules(c) }; goto ended
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
  atomic {
    if
    :: mixed -> said[c] = saidMixed
    :: !mixed && pending -> said[c] = saidPartial
    :: else -> said[c] = saidCommitted
    fi;
    rules(c)
  };
  if /* resolve: off the caller's path, and when every participant has confirmed */
#ifdef DELETED_UNCONFIRMED
  :: d_step { row[c] == commit -> row[c] = none; resolved[c] = false }
#else
  :: d_step { said[c] == saidCommitted && row[c] == commit -> row[c] = none; resolved[c] = false }
  :: d_step { said[c] == saidCommitted && row[c] == commit -> resolved[c] = true; rules(c) } /* KeepDecision */
#endif
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
  atomic { said[c] = (pending -> saidRollbackPending : saidAborted); rules(c) };
#ifdef ABORT_DELETED
  if :: outcome == abort -> row[c] = none :: else fi;
#endif
  goto ended;

dead:
  said[c] = died;
ended:
  atomic { /* what is of no interest any more must not tell states apart */
    outcome = none; pending = false; mixed = false;
    told[0] = false; told[N-1] = false; vote[c*N] = unanswered; vote[c*N+N-1] = unanswered
  }
}
