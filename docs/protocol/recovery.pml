/* Recovery, the operator, and what the call shares with them: the fence and the end of a prepared transaction. */

/* fence: an abort row under the key that the decision would need, or who has won that key. A decision in flight makes it
   wait; waiting too long is a failure of the step that it belongs to. */
inline fence(who, winner) {
  d_step {
#if defined NO_FENCE
    winner = (row[c] == commit -> commit : abort);
#elif defined FENCE_DOES_NOT_WAIT
    winner = (row[c] == commit -> commit : abort);
    row[c] = (row[c] == none -> abort : row[c]);
#else
    row[c] != inserting ->
    row[c] = (row[c] == none -> abort : row[c]);
    winner = row[c];
#endif
    printf("%e %d: fences, and finds %e\n", who, _pid, winner)
  }
}

/* commitDecided: by its transaction id "gone" is told from "committed". */
inline commitPrepared(who, i, end) {
  d_step {
    tx[c*N+i] = (tx[c*N+i] == prepared -> committed : tx[c*N+i]);
#ifdef GONE_IS_COMMITTED
    end = committed;
#else
    end = tx[c*N+i];
#endif
    printf("%e %d: COMMIT PREPARED in participant %d, which is %e\n", who, _pid, c*N+i, tx[c*N+i]);
    rules(c)
  }
}

/* finishPrepared: what is gone was rolled back by somebody who was faster. */
inline rollbackPrepared(who, i) {
  d_step {
    tx[c*N+i] = (tx[c*N+i] == prepared -> rolledback : tx[c*N+i]);
    printf("%e %d: ROLLBACK PREPARED in participant %d, which is %e\n", who, _pid, c*N+i, tx[c*N+i]);
    rules(c)
  }
}

/* listOne: what a database holds, if it can be reached. */
#ifdef TRUSTED_AGE
#define IS_LISTED(i) (IS_PREPARED(i) && said[c] != running && !decisionSent[c])
#else
#define IS_LISTED(i) IS_PREPARED(i)
#endif

inline listOne(i) {
  if
  :: CAN_FAIL -> FAIL; unreachable = true
#if defined ENDLESS
  :: i == 1 && down -> unreachable = true
  :: !(i == 1 && down) -> reached[i] = true; listed[i] = IS_LISTED(i)
#elif defined OPERATOR
  :: i == 1 && away                                       /* it is not configured, and nobody looks */
  :: !(i == 1 && away) -> reached[i] = true; listed[i] = IS_LISTED(i)
#else
  :: reached[i] = true; listed[i] = IS_LISTED(i)
#endif
  fi;
  if
  :: listed[i] -> printf("recoverer %d: lists participant %d\n", _pid, c*N+i)
  :: else
  fi
}

/* lookUp: the row, by its key, whatever its age and whether resolved or not. What is being inserted is not seen. */
inline lookUp() {
  d_step {
#ifdef AGE_FILTER
    found = (row[c] == abort -> abort : none);
#else
    found = (row[c] == inserting -> none : row[c]);
#endif
    unresolved = found == commit && !resolved[c];
    printf("recoverer %d: looks the row up, and finds %e\n", _pid, found)
  }
}

/* fenceAll: what is prepared and has no decision. It may be left to its call while that lives, or seems to: a courtesy. */
inline leaveAll() { listed[0] = false; listed[N-1] = false }

inline fenceAll() {
  if
  :: CAN_FAIL -> FAIL; leaveAll()
  :: said[c] == running && !last -> leaveAll()
#ifdef DEAD_IS_TRUSTED
  :: said[c] != running || decided[c] -> found = abort; printf("recoverer %d: finds no session\n", _pid)
#endif
#if defined ONLY_DECIDED
  :: leaveAll()
#elif defined TRUSTED_AGE
  :: found = abort
#elif defined ANSWER_UNREAD
  :: fence(recoverer, found); found = abort
#else
  :: fence(recoverer, found)
#endif
  fi
}

/* finishOne: what the row says. */
inline finishOne(i) {
  if
  :: CAN_FAIL -> FAIL; reached[i] = false
  :: found == commit -> commitPrepared(recoverer, i, end); end = open
  :: found == abort -> rollbackPrepared(recoverer, i)
  fi;
  listed[i] = false
}

/* resolve: every participant was reached, and is known to have committed. */
#if defined RESOLVED_UNREACHED
#define IS_VERIFIED(i) (HAS_COMMITTED(i) || !reached[i])
#elif defined RESOLVED_BY_LIST
#define IS_VERIFIED(i) (!WROTE(i) || reached[i])
#else
#define IS_VERIFIED(i) (!WROTE(i) || reached[i] && tx[c*N+i] == committed)
#endif

inline resolve() {
  d_step {
    if
    :: unresolved && EVERY(IS_VERIFIED) && row[c] == commit ->
#ifdef RECOVERY_DELETES
       row[c] = none; printf("recoverer %d: deletes the row\n", _pid)
#else
       resolved[c] = true; printf("recoverer %d: marks the row as resolved\n", _pid); rules(c)
#endif
    :: else
    fi
  }
}

/* purge: old rows, when every database was looked at and none of them held the transaction. Rows are kept for longer than
   any process is paused and any message is under way. */
#define IS_RESOLVED (row[c] == abort || row[c] == commit && resolved[c])
#if defined PURGE_YOUNG
#define IS_OLD IS_RESOLVED
#elif defined FORGOTTEN_IS_PURGED
#define IS_OLD (IS_RESOLVED && said[c] != running && !decisionSent[c])
#else
#define IS_OLD (IS_RESOLVED && said[c] != running && !decisionSent[c] && !forgotten[c])
#endif
#ifdef PURGE_HELD
#define MAY_PURGE true
#else
#define MAY_PURGE (!unreachable && !held)
#endif
#define WAS_LISTED(i)  listed[i]

inline purge() {
  if
  :: d_step { old && MAY_PURGE -> row[c] = none; resolved[c] = false; printf("recoverer %d: removes the old row\n", _pid) }
  :: skip
  fi
}

proctype Recoverer(byte c; bool last) {
  bool listed[N], reached[N], unreachable, held, unresolved, old;
  mtype found = none, end = open;
pass:
#ifdef LOOKUP_FIRST
  lookUp();
#endif
  atomic {
    listOne(0);
#if N == 2
    listOne(1);
#endif
    held = SOME(WAS_LISTED);
#ifdef RETENTION
    old = IS_OLD
#endif
  };
  atomic {
#ifndef LOOKUP_FIRST
    lookUp();
#endif
#ifdef ALL_OR_NOTHING
    if :: unreachable -> goto passed :: else fi;
#endif
#ifndef RETENTION
    if
    :: !held && !unresolved -> goto passed
    :: held && !unresolved -> reached[0] = false; reached[N-1] = false; unreachable = false /* of no more interest */
    :: unresolved -> unreachable = false
    fi
#endif
  };
  atomic { if :: held && found == none -> fenceAll() :: else fi };
  do
  :: atomic { listed[0] -> finishOne(0) }
#if N == 2
  :: atomic { listed[1] -> finishOne(1) }
#endif
  :: else -> break
  od;
  resolve();
#ifdef RETENTION
  purge();
#endif
#ifdef NO_COORDINATOR_ID
  if
  :: d_step { tx[1-c] == prepared ->                      /* no table of this coordinator has its row */
       tx[1-c] = rolledback; printf("recoverer %d: ROLLBACK PREPARED of the other coordinator's\n", _pid); rules((1-c)) }
  :: skip
  fi;
#endif
passed:
  atomic {
    leaveAll(); reached[0] = false; reached[N-1] = false; unreachable = false; held = false; unresolved = false; old = false; found = none;
#ifdef ENDLESS
    goto pass
#endif
  }
}

#ifdef OPERATOR
/* An operator. Forget refuses what can still be finished, or cannot be looked at. */
#define IS_GIVEN_UP(i) (byHand[c*N+i] || i == 1 && away)
#define IS_OVER(i)     (HAS_COMMITTED(i) || IS_GIVEN_UP(i))

proctype Operator(byte c) {
  if
  :: d_step { tx[c*N] == prepared -> tx[c*N] = rolledback; byHand[c*N] = true; printf("operator: ROLLBACK PREPARED in participant 0\n") }
  :: d_step { tx[c*N+1] == prepared -> tx[c*N+1] = rolledback; byHand[c*N+1] = true; printf("operator: ROLLBACK PREPARED in participant 1\n") }
  :: skip
  fi;
  if
  :: d_step { away = true; printf("operator: takes participant 1 out of the configuration\n") }
  :: skip
  fi;
  if
  :: d_step { row[c] == commit && !resolved[c] && EVERY(IS_OVER) && SOME(IS_GIVEN_UP) ->
       resolved[c] = true; forgotten[c] = true; printf("operator: forgets it\n") }
  :: skip
  fi;
  d_step { if :: away -> away = false; printf("operator: puts participant 1 back\n") :: else fi }
}
#endif
