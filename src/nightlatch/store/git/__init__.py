"""A store in the refs of a git remote: for machines that share a repository but no server.

    refs/nightlatch/<name>          one lease, a commit whose message is the record
    refs/nightlatch/@store          the store's id
    refs/nightlatch/@done/<0..f>    done keys, in the commit's tree
    refs/nightlatch/@job/<job>      a job's row
    refs/nightlatch/@floor          the highest token of the leases whose unused refs were deleted
    refs/nightlatch/@fence/<branch> a branch's marks

Every write is a compare-and-swap push of a new object. Clones do not fetch these refs.
"""
