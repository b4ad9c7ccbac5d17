/* Recovery, the operator, and what the call shares with them: the fence and the end of a prepared transaction. */

/* fence: an abort row under the key that the decision would need, or who has won that key. A decision in flight makes it
   wait; waiting too long is a failure of the step that it belongs to. */
inline fence(winner) {
#if defined NO_FENCE
  d_step { winner = (row[c] == commit -> commit : abort) }
#elif defined FENCE_DOES_NOT_WAIT
  d_step { winner = (row[c] == commit -> commit : abort); row[c] = (row[c] == none -> abort : row[c]) }
#else
  d_step { row[c] != inserting -> row[c] = (row[c] == none -> abort : row[c]); winner = row[c] }
#endif
}

/* commitDecided: by its transaction id "gone" is told from "committed". */
inline commitPrepared(i, end) {
  d_step {
    tx[c*N+i] = (tx[c*N+i] == prepared -> committed : tx[c*N+i]);
    rules(c);
#ifdef GONE_IS_COMMITTED
    end = committed
#else
    end = tx[c*N+i]
#endif
  }
}

/* finishPrepared: what is gone was rolled back by somebody who was faster. */
inline rollbackPrepared(i) {
  d_step {
    tx[c*N+i] = (tx[c*N+i] == prepared -> rolledback : tx[c*N+i]);
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
  :: CAN_FAIL -> FAIL
  :: IS_DOWN(i)
  :: !IS_DOWN(i) -> reached[i] = true; listed[i] = IS_LISTED(i)
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
    unresolved = found == commit && !resolved[c]
  }
}

/* fenceAll: what is prepared and has no decision. It may be left to its call while that lives, or seems to: a courtesy. */
inline leaveAll() { listed[0] = false; listed[N-1] = false }

inline fenceAll() {
  if
  :: CAN_FAIL -> FAIL; leaveAll()
  :: said[c] == running && !last -> leaveAll()
#ifdef DEAD_IS_TRUSTED
  :: said[c] != running || decided[c] -> found = abort    /* its session is gone */
#endif
#if defined ONLY_DECIDED
  :: leaveAll()
#elif defined TRUSTED_AGE
  :: found = abort
#elif defined ANSWER_UNREAD
  :: fence(found); found = abort
#else
  :: fence(found)
#endif
  fi
}

/* finishOne: what the row says. */
inline finishOne(i) {
  if
  :: CAN_FAIL -> FAIL; reached[i] = false
  :: found == commit -> commitPrepared(i, end); end = open
  :: found == abort -> rollbackPrepared(i)
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
       row[c] = none
#else
       resolved[c] = true; rules(c)
#endif
    :: else
    fi
  }
}

/* purge: old rows, when every database was looked at and none of them held the transaction. Rows are kept for longer than
   any process is paused and any message is under way. */
#ifdef PURGE_YOUNG
#define IS_OLD  (row[c] == abort || row[c] == commit && resolved[c])
#else
#define IS_OLD  ((row[c] == abort || row[c] == commit && resolved[c]) && said[c] != running && !decisionSent[c])
#endif
#define WAS_REACHED(i) reached[i]
#define WAS_LISTED(i)  listed[i]
#ifdef PURGE_HELD
#define MAY_PURGE true
#else
#define MAY_PURGE (EVERY(WAS_REACHED) && !held)
#endif

inline purge() {
  if
  :: d_step { old && MAY_PURGE -> row[c] = none; resolved[c] = false }
  :: skip
  fi
}

proctype Recoverer(byte c; bool last) {
  bool listed[N], reached[N], held, unresolved, old;
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
    if :: EVERY(WAS_REACHED) :: else -> goto passed fi;
#endif
#ifndef RETENTION
    if
    :: !held && !unresolved -> goto passed
    :: held && !unresolved -> reached[0] = false; reached[N-1] = false /* of no more interest */
    :: else
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
  :: d_step { tx[1-c] == prepared -> tx[1-c] = rolledback; rules((1-c)) } /* no table of this coordinator has its row */
  :: skip
  fi;
#endif
passed:
  atomic {
    leaveAll(); reached[0] = false; reached[N-1] = false; held = false; unresolved = false; old = false; found = none;
#ifdef ENDLESS
    goto pass
#endif
  }
}

#ifdef BY_HAND
/* An operator, who rolls a prepared transaction back and, when the data are repaired, forgets the mixed transaction. */
proctype Operator(byte c) {
  if
  :: d_step { tx[c*N] == prepared -> tx[c*N] = rolledback; byHand[c*N] = true }
  :: d_step { tx[c*N+1] == prepared -> tx[c*N+1] = rolledback; byHand[c*N+1] = true }
  :: skip
  fi;
  if
  :: d_step { row[c] == commit && SOME(IS_BY_HAND) -> resolved[c] = true; forgotten[c] = true }
  :: skip
  fi
}
#endif
