/* The databases of a call. They run what is on its way to them, at any later time, or lose it. */

/* A participant. An answer counts only while the call waits for it. */
inline answer(p, word) {
  prepareSent[p] = false; terminated[p] = false;
  vote[p] = (vote[p] == unanswered && said[c] == running -> word : vote[p])
}

inline participant(p) {
  if
  :: d_step { tx[p] == open && prepareSent[p] ->
       tx[p] = prepared; answer(p, yes);
       printf("participant %d: prepares\n", p);
       rules(c) }
  :: d_step { tx[p] == open && prepareSent[p] ->
       tx[p] = rolledback; answer(p, no);
       printf("participant %d: refuses to prepare, or its connection is lost before\n", p) }
  :: d_step { tx[p] == open && terminated[p] ->
       tx[p] = rolledback; answer(p, no);
       printf("participant %d: the server process ends\n", p) }
  fi
}

/* The coordinator. Its transaction inserts the row and commits: two instants, between which the key is taken and nobody
   sees the row. */
inline coordinator() {
  if
  :: d_step { decisionSent[c] && row[c] == none ->
       row[c] = inserting;
       printf("coordinator: inserts the decision\n") }
  :: d_step { decisionSent[c] && row[c] == abort ->
#ifdef NO_SHARED_KEY
       row[c] = commit; decided[c] = true; decisionSent[c] = false;
       printf("coordinator: commits the decision beside the abort row\n");
       rules(c)
#else
       decisionSent[c] = false;                           /* 23505: a definite abort */
       printf("coordinator: refuses the decision, for its key is taken\n")
#endif
     }
  :: d_step { row[c] == inserting ->
       row[c] = commit; decided[c] = true; decisionSent[c] = false;
       printf("coordinator: commits the decision\n");
       rules(c) }
  :: d_step { row[c] == inserting ->                      /* a deferred constraint, 40001, a crash */
       row[c] = none; decisionSent[c] = false;
       printf("coordinator: rolls the decision back\n") }
#ifdef ASYNCHRONOUS_DECISION
  :: d_step { row[c] == commit ->
       row[c] = none; decided[c] = false;
       printf("coordinator: crashes, and has lost the decision\n");
       rules(c) }
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
