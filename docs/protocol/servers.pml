/* The databases of a call. They run what is on its way to them, at any later time, or lose it. */

/* A participant. An answer counts only while the call waits for it. */
inline answer(p, word) {
  prepareSent[p] = false; terminated[p] = false;
  vote[p] = (vote[p] == unanswered && said[c] == running -> word : vote[p])
}

inline participant(p) {
  if
  :: d_step { tx[p] == open && prepareSent[p] -> tx[p] = prepared; answer(p, yes); rules(c) }
  :: d_step { tx[p] == open && prepareSent[p] -> tx[p] = rolledback; answer(p, no) } /* refused, or lost with its connection */
  :: d_step { tx[p] == open && terminated[p] -> tx[p] = rolledback; answer(p, no) }
  fi
}

/* The coordinator. Its transaction inserts the row and commits: two instants, between which the key is taken and nobody
   sees the row. */
inline coordinator() {
  if
  :: d_step { decisionSent[c] && row[c] == none -> row[c] = inserting }
  :: d_step { decisionSent[c] && row[c] == abort ->
#ifdef NO_SHARED_KEY
       row[c] = commit; decided[c] = true; decisionSent[c] = false; rules(c)
#else
       decisionSent[c] = false                            /* 23505: a definite abort */
#endif
     }
  :: d_step { row[c] == inserting -> row[c] = commit; decided[c] = true; decisionSent[c] = false; rules(c) }
  :: d_step { row[c] == inserting -> row[c] = none; decisionSent[c] = false } /* a deferred constraint, 40001, a crash */
#ifdef ASYNCHRONOUS_DECISION
  :: d_step { row[c] == commit -> row[c] = none; decided[c] = false; rules(c) } /* a crash before the flush */
#endif
  fi
}

proctype Servers(byte c) {
  do
  :: participant(c*N)
#if N == 2
  :: participant(c*N+1)
#endif
  :: coordinator()
  :: said[c] != running && !decisionSent[c] && row[c] != inserting && !SOME(IS_SENT) -> break
  od
}
