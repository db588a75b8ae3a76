-- On SQLite each kind is compared by itself: for a list of them it would fill a temporary table at every entry. On
-- PostgreSQL the list is faster, and stays; a query with these comparisons uses that index too.
/* sqlite: DROP INDEX journal_rare */;
/* sqlite: CREATE INDEX journal_rare ON journal (at, kind) WHERE kind <> 'progress' AND kind <> 'usage'
  AND kind <> 'opened' AND kind <> 'started' AND kind <> 'ended' AND kind <> 'steps' AND kind <> 'effect'
  AND kind <> 'effect-begun' AND kind <> 'effect-done' AND kind <> 'step-begun' AND kind <> 'step-done'
  AND kind <> 'input' AND kind <> 'workspace' AND kind <> 'publishing' AND kind <> 'published' AND kind <> 'batch'
  AND kind <> 'lent' */
