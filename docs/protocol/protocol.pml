/* The distributed commit of package transactions. README.md says what each step stands for in the code, which rules are
   checked, and how to run it. Here are the state, the rules and the whole; servers.pml, call.pml and recovery.pml have the
   actors. A build is configured by

     N             participants of a call (2)
     RECOVERERS    recoverers of its coordinator (2)
     COORDINATORS  2: another coordinator shares the participant
     READERS       a participant may have been read only, or not been touched at all
     RETENTION     recovery removes old rows
     OPERATOR      an operator rolls a prepared transaction back, takes a database out of the configuration and back, and
                   forgets what recovery cannot finish
     ENDLESS       recoverers run for ever, and a participant may be down for ever

   and by the names of the rules to drop, which README.md lists. */

#ifndef N
#define N 2
#endif
#ifndef RECOVERERS
#define RECOVERERS 2
#endif
#ifndef COORDINATORS
#define COORDINATORS 1
#endif

mtype = { open, prepared, committed, rolledback }         /* a transaction in a participant */
mtype = { none, inserting, commit, abort }                /* the row of an xid in the coordinator's database */
mtype = { writer, reader, untouched }                     /* what fn did in a participant */
mtype = { unanswered, yes, no, lost }                     /* a vote; lost: possibly prepared */
mtype = { running, saidCommitted, saidAborted, saidRollbackPending, saidPartial, saidAmbiguous, saidMixed, died }

mtype = { call, recoverer }                               /* who does what both can do */

/* c is a coordinator and its call; participant i of it is c*N+i. */
mtype tx[COORDINATORS*N] = open;
mtype kind[COORDINATORS*N] = writer;
mtype vote[COORDINATORS*N] = unanswered;
bool  prepareSent[COORDINATORS*N];                        /* PREPARE TRANSACTION is on its way */
bool  terminated[COORDINATORS*N];                         /* the server process that would run it is told to end */
bool  byHand[COORDINATORS*N];                             /* rolled back by an operator */
bool  away;                                               /* no configured connection leads to the second participant */

mtype row[COORDINATORS] = none;
bool  resolved[COORDINATORS];                             /* resolved_at of a decision; an abort row is born with it */
bool  forgotten[COORDINATORS];                            /* resolved_at is infinity */
bool  decisionSent[COORDINATORS];                         /* the deciding COMMIT is on its way */
bool  decided[COORDINATORS];                              /* it is durable, the coordinator's own writes with it */
mtype said[COORDINATORS] = running;                       /* what the call returned */

#if N == 1
#define EVERY(holds)     (holds(0))
#define SOME(holds)      (holds(0))
#else
#define EVERY(holds)     (holds(0) && holds(1))
#define SOME(holds)      (holds(0) || holds(1))
#endif
#define WROTE(i)         (kind[c*N+i] == writer)
#define IS_PREPARED(i)   (WROTE(i) && tx[c*N+i] == prepared)
#define HAS_COMMITTED(i) (!WROTE(i) || tx[c*N+i] == committed)
#define HAS_WAITED(i)    (HAS_COMMITTED(i) && decided[c] || !WROTE(i) || tx[c*N+i] != committed)
#define IS_KEPT(i)       (HAS_COMMITTED(i) || IS_PREPARED(i) || byHand[c*N+i] || !decided[c])
#define IS_BY_HAND(i)    (byHand[c*N+i])
#define IS_SENT(i)       (prepareSent[c*N+i])
#define ABORTED          (said[c] == saidAborted || said[c] == saidRollbackPending)
#ifdef RETRY_AFTER_UNKNOWN
#define RUNS_AGAIN       (said[c] == saidAborted || said[c] == saidAmbiguous)
#else
#define RUNS_AGAIN       (said[c] == saidAborted)
#endif

/* The rules, checked after every step that could break one. Each is a variable, so that a violation is reported by its
   name. */
bool decision_comes_first = true;      /* no participant commits unless the decision is durable */
bool nothing_is_lost = true;           /* what is decided stays prepared until it is committed */
bool told_the_truth = true;            /* what the call returned is so, and stays so */
bool nothing_is_left = true;           /* nothing is prepared, or becomes so, after a call that names nothing */
bool no_effect_twice = true;           /* what is run again was not decided, and never will be */
bool resolved_is_finished = true;      /* a resolved decision is committed everywhere */
bool mixed_is_kept = true;             /* a mixed transaction is reported until an operator forgets it */
bool all_is_finished = true;           /* after the last fault recovery finishes everything */

inline rules(c) {
  decision_comes_first = EVERY(HAS_WAITED);
  assert(decision_comes_first);
  nothing_is_lost = EVERY(IS_KEPT);
  assert(nothing_is_lost);
  no_effect_twice = !(RUNS_AGAIN && decided[c]);
  assert(no_effect_twice);
  told_the_truth = !(ABORTED && decided[c]) &&
    (said[c] != saidCommitted || decided[c] && EVERY(HAS_COMMITTED)) &&
    (said[c] != saidPartial || decided[c]) &&
    (said[c] != saidMixed || decided[c] && SOME(IS_BY_HAND));
  assert(told_the_truth);
  nothing_is_left = said[c] != saidAborted && said[c] != saidCommitted || !SOME(IS_PREPARED);
  assert(nothing_is_left);
  resolved_is_finished = !resolved[c] || forgotten[c] || EVERY(HAS_COMMITTED);
  assert(resolved_is_finished)
}

inline lastRules(c) {
  all_is_finished = !SOME(IS_PREPARED);
  assert(all_is_finished);
  mixed_is_kept = !(decided[c] && SOME(IS_BY_HAND)) || forgotten[c] || row[c] == commit && !resolved[c];
  assert(mixed_is_kept)
}

/* Where recovery can fail: everywhere, except in its last pass. With ENDLESS a number of times, and for ever where a
   participant is down. */
#ifdef ENDLESS
byte faults = 2;
bool down;                                                /* the second participant */
#define CAN_FAIL         (faults > 0)
#define FAIL             faults--
#else
#define CAN_FAIL         (!last)
#define FAIL             skip
#endif

#include "recovery.pml"
#include "servers.pml"
#include "call.pml"

init {
  byte c = 0;
#ifdef READERS
  if :: kind[0] = reader :: kind[0] = untouched :: skip fi;
  if :: kind[1] = reader :: kind[1] = untouched :: skip fi;
#endif
#ifdef ENDLESS
  if :: down = true :: skip fi;
#endif
  atomic {
    run Servers(0);
    run Call(0);
#ifdef OPERATOR
    run Operator(0);
#endif
    run Recoverer(0, false);
#if RECOVERERS == 2
    run Recoverer(0, false);
#endif
#if COORDINATORS == 2
    /* The other coordinator's call has died, before or after it decided. */
    tx[1] = prepared; said[1] = died;
    if :: row[1] = commit; decided[1] = true :: skip fi;
    run Recoverer(1, false)
#endif
  }
#ifndef ENDLESS
  do /* when nothing moves any more */
  :: c < COORDINATORS ->
     _nr_pr == 1 -> run Recoverer(c, true);
     _nr_pr == 1 -> d_step { rules(c); lastRules(c); c++ }
  :: else -> break
  od
#endif
}

#ifdef ENDLESS
/* As long as recovery goes on, everything that can be reached is finished, and resolved, for good. */
#define finished (tx[0] != prepared && (down || tx[1] != prepared && (row[0] != commit || resolved[0])))
ltl finished_in_the_end { <>[] finished }
#endif
