set -e
export GIT_AUTHOR_DATE='2001-02-03T04:05:06Z' GIT_COMMITTER_DATE='2001-02-03T04:05:06Z' GIT_AUTHOR_NAME=a \
  GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_NOSYSTEM=1 GIT_PAGER=cat
git init -q -b main repository; cd repository; git config gc.auto 0
for round in 1 2 3 4 5 6; do
  split -l $((300 * round)) ../input part- ; git add -A; git commit -q -m "round $round"
  git mv part-aa moved-$round; git commit -q -m "move $round"
done
git log --stat --format='%H %s' | sha256sum
git checkout -q -b side HEAD~4; echo side > side; git add side; git commit -q -m side
git merge -q -m merge main; git log --graph --format=%h | sha256sum
for i in 1 2 3; do git diff --stat HEAD~6 HEAD | tail -1; git grep -c the HEAD -- 'part-a*' | sha256sum; done
git blame moved-6 | sha256sum; git repack -q -a -d -f --depth=50 --threads=2; git fsck --full --strict 2>&1
git archive HEAD | sha256sum; git rev-parse HEAD; git rev-list --objects --all | wc -l
