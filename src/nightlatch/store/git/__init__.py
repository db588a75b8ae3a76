"""A store in the refs of a git remote: for machines that share a repository and no server.

    refs/nightlatch/<name>          one lease, a commit whose message is the record
    refs/nightlatch/@store          the store's id
    refs/nightlatch/@done/<0..f>    done keys, in the commit's tree
    refs/nightlatch/@job/<job>      a job's row

Every write is a compare-and-swap push of a new object. Clones do not fetch these refs.
"""
