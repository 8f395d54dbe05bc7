/*
 * Work under a lease: one phase of database work and one call, by owners that stop, die, and take over from each
 * other at any moment, and whose commits may come to the database late or never, whether or not they were answered.
 * `make models` checks it, and that each broken variant (-D...) fails. See package lease and DESIGN.md.
 *
 * A lease may be over at any moment: an owner that takes over asks no clock. So what is proven does not rest on clocks.
 */

#define ABSENT  0
#define RUNNING 1
#define UNKNOWN 2
#define DONE    3

#ifndef OWNERS
#define OWNERS 3
#endif

/* The record of the operation, and what the phase has written. */
byte state = ABSENT;
byte fence = 0;
byte nonce = 0;
bool phase = false; /* saved in the record */
bool begun = false; /* a call was begun, and its outcome is not saved */
byte generation = 0; /* voided keys */
byte rows = 0;

/* The service. A key is a generation of the call's key. */
byte effects = 0;
bool taken[4];  /* keys that the service has seen */
bool refused[4]; /* keys under which it keeps a tombstone */

/* What an owner may do about a call whose outcome is not known: one of POLICY_NONE, POLICY_DEDUPED, POLICY_CHECK. */

#ifdef POLICY_DEDUPED
#define DEDUPES true
#else
#define DEDUPES false
#endif

/* holds: the owner's condition on the record, for each of its writes. */
#ifdef NO_NONCE
#define MINE (state == RUNNING && fence == f)
#else
#define MINE (state == RUNNING && fence == f && nonce == me)
#endif
#ifdef NO_FENCE
#define HOLDS(f) (f == 0 -> state == ABSENT : state == RUNNING)
#else
#define HOLDS(f) (f == 0 -> state == ABSENT : MINE)
#endif
#ifdef FENCE_BY_TAKEOVER_ONLY
#define RAISED(f) (f == 0 -> 1 : f)
#else
#define RAISED(f) (f + 1)
#endif

/* A commit of the phase on its way to the database: it is applied, if it still holds, or it is dropped. */
proctype Commit(byte me; byte f) {
	atomic {
		if
		:: HOLDS(f) ->
			rows++;
			phase = true;
			state = RUNNING; nonce = me; fence = RAISED(f)
		:: skip /* dropped on the way, or refused */
		fi
	}
}

/* A request on its way to the service. */
proctype Request(byte key) {
	atomic {
		if
		:: DEDUPES && taken[key] -> skip
		:: refused[key] -> skip
		:: else -> taken[key] = true; effects++
		fi
	}
}

proctype Owner(byte me) {
	byte f = 0;
	byte key = 0; /* of the call */
	bool done_phase = false;
	bool pending = false;
	byte tries = 0;

	/* Begin: nothing is there, or the last owner's lease is over. */
	atomic {
		if
		:: state == ABSENT -> skip /* the first write claims */
		:: state == ABSENT -> state = RUNNING; fence = 1; nonce = me; f = 1 /* Config.Eager */
		:: state == RUNNING ->
			done_phase = phase;
			pending = begun;
			if
#ifdef POLICY_NONE
#ifndef UNKNOWN_RUNS_AGAIN
			:: begun -> state = UNKNOWN; fence = fence + 1; goto gone
#endif
#endif
			:: else -> fence = fence + 1; nonce = me; f = fence; key = generation
			fi
		:: else -> goto gone
		fi
	}

	/* The phase: its write and the fact that it is done are one commit. */
	if
	:: !done_phase ->
again:
		tries++;
		run Commit(me, f);
		if
		:: atomic { state == RUNNING && nonce == me && fence == RAISED(f) && phase -> f = fence } /* answered, or read after a lost answer */
#ifdef RECORD_SENT_ALONE
		:: atomic { HOLDS(f) -> phase = true; state = RUNNING; nonce = me; fence = RAISED(f); f = fence } /* the answer was lost */
#else
		:: atomic { HOLDS(f) && tries < 2 } -> goto again /* not there yet: the whole phase again, under the same fence */
#endif
		:: goto gone /* dead, or another owner is there */
		fi
	:: else
	fi;

	/* The call. */
	if
	:: pending ->
#ifdef POLICY_CHECK
		/* The service is asked under the key. */
		atomic {
			if
			:: taken[generation] -> goto result
			:: else ->
#ifdef NOT_FOUND_IS_NO
				skip
#else
				refused[generation] = true
#endif
			fi
		}
		if
		:: skip
		:: goto gone
		fi;
		atomic {
			if
			:: HOLDS(f) && generation < 3 -> generation++; key = generation; begun = true; fence = RAISED(f); f = fence
			:: else -> goto gone
			fi
		}
#else
		skip
#endif
	:: else ->
#ifndef INTENT_AFTER_CALL
		atomic {
			if
			:: HOLDS(f) -> key = generation; begun = true; fence = RAISED(f); nonce = me; f = fence
			:: else -> goto gone
			fi
		}
#else
		skip
#endif
	fi;
	if
	:: skip
	:: goto gone /* stopped for ever before the request, or dead */
	fi;
	run Request(key);
#ifdef INTENT_AFTER_CALL
	if
	:: skip
	:: goto gone
	fi;
	atomic {
		if
		:: HOLDS(f) -> begun = true; fence = RAISED(f); nonce = me; f = fence
		:: else -> goto gone
		fi
	}
#endif
	if
	:: taken[key] -> skip /* answered */
	:: goto gone /* the answer is lost, and the owner dies; the request may still arrive */
	fi;

result:
	atomic {
		if
		:: HOLDS(f) -> state = DONE; begun = false; fence = RAISED(f)
		:: else
		fi
	}
gone:
	skip
}

init {
	byte i = 1;
	atomic {
		do
		:: i <= OWNERS -> run Owner(i); i++
		:: else -> break
		od
	}
	/* All owners, commits and requests have ended. */
	_nr_pr == 1;
	assert(rows <= 1);
	assert(!phase || rows == 1); /* a recovery point without its write */
	assert(effects <= 1);
	assert(state != DONE || rows == 1 && effects == 1)
}
