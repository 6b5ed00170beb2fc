// GitHub: @octokit/rest, the REST client of GitHub.
import { Octokit } from "@octokit/rest";
import { alwaysDiffers, at, call, CREDENTIAL } from "./recording.mjs";

alwaysDiffers(
  "/headers/authorization",
  "The SDK writes the scheme of a personal access token as `token`; GitHub accepts it and `Bearer`, which its documentation recommends.",
);

const octokit = new Octokit({ auth: CREDENTIAL, baseUrl: at("https://api.github.com") });
const { actions, issues, pulls, repos, search, users } = octokit.rest;
const repo = { owner: "octocat", repo: "hello-world" };

await call("github_get_current_user", {}, () => users.getAuthenticated());
await call("github_search_repositories", { q: "language:python stars:>100", sort: "stars", per_page: 5 }, () =>
  search.repos({ q: "language:python stars:>100", sort: "stars", per_page: 5 }),
);
await call("github_search_code", { q: "addClass in:file repo:jquery/jquery", per_page: 10 }, () =>
  search.code({ q: "addClass in:file repo:jquery/jquery", per_page: 10 }),
);
await call("github_search_issues", { q: "is:pr is:open author:octocat", order: "asc", page: 2 }, () =>
  search.issuesAndPullRequests({ q: "is:pr is:open author:octocat", order: "asc", page: 2 }),
);
await call("github_get_repository", repo, () => repos.get(repo));
await call("github_list_my_repositories", { affiliation: "owner,collaborator", per_page: 30 }, () =>
  repos.listForAuthenticatedUser({ affiliation: "owner,collaborator", per_page: 30 }),
);
await call("github_list_branches", { ...repo, protected: true }, () => repos.listBranches({ ...repo, protected: true }));
await call("github_list_commits", { ...repo, path: "docs/a b.md", since: "2026-11-01T00:00:00Z" }, () =>
  repos.listCommits({ ...repo, path: "docs/a b.md", since: "2026-11-01T00:00:00Z" }),
);
await call("github_list_issues", { ...repo, state: "open", labels: "bug,help wanted" }, () =>
  issues.listForRepo({ ...repo, state: "open", labels: "bug,help wanted" }),
);
await call("github_get_issue", { ...repo, issue_number: 42 }, () => issues.get({ ...repo, issue_number: 42 }));
const issue = { title: "Crash & burn", body: "Steps: …", labels: ["bug"], assignees: ["octocat"] };
await call("github_create_issue", { ...repo, body: issue }, () => issues.create({ ...repo, ...issue }));
const closed = { state: "closed", state_reason: "completed" };
await call("github_update_issue", { ...repo, issue_number: 42, body: closed }, () =>
  issues.update({ ...repo, issue_number: 42, ...closed }),
);
await call("github_list_issue_comments", { ...repo, issue_number: 42, per_page: 10 }, () =>
  issues.listComments({ ...repo, issue_number: 42, per_page: 10 }),
);
await call("github_comment_on_issue", { ...repo, issue_number: 42, body: { body: "Thanks!" } }, () =>
  issues.createComment({ ...repo, issue_number: 42, body: "Thanks!" }),
);
await call("github_list_pull_requests", { ...repo, state: "open", base: "main" }, () =>
  pulls.list({ ...repo, state: "open", base: "main" }),
);
await call("github_get_pull_request", { ...repo, pull_number: 7 }, () => pulls.get({ ...repo, pull_number: 7 }));
await call("github_list_pull_request_files", { ...repo, pull_number: 7, per_page: 100 }, () =>
  pulls.listFiles({ ...repo, pull_number: 7, per_page: 100 }),
);
const pull = { title: "Add docs", head: "octocat:docs", base: "main", draft: true };
await call("github_create_pull_request", { ...repo, body: pull }, () => pulls.create({ ...repo, ...pull }));
await call("github_list_workflow_runs", { ...repo, branch: "main", status: "failure" }, () =>
  actions.listWorkflowRunsForRepo({ ...repo, branch: "main", status: "failure" }),
);
await call("github_list_releases", { ...repo, per_page: 5 }, () => repos.listReleases({ ...repo, per_page: 5 }));
