// Netlify: @netlify/api, the Node.js client of Netlify. It makes its methods of the document of @netlify/open-api.
import { NetlifyAPI } from "@netlify/api";
import { at, call, CREDENTIAL } from "./recording.mjs";

const own = new NetlifyAPI(CREDENTIAL);
const [scheme, host] = at(`${own.scheme}://${own.host}`).split("://");
const netlify = new NetlifyAPI(CREDENTIAL, { scheme, host });

await call("netlify_get_current_user", {}, () => netlify.getCurrentUser());
await call("netlify_list_accounts", {}, () => netlify.listAccountsForUser());
await call("netlify_list_sites", { name: "docs & more", page: 2, per_page: 20 }, () =>
  netlify.listSites({ name: "docs & more", page: 2, per_page: 20 }),
);
await call("netlify_get_site", { site_id: "3970e0fe-8564" }, () => netlify.getSite({ site_id: "3970e0fe-8564" }));
await call("netlify_create_site", { body: { name: "my-docs" } }, () => netlify.createSite({ body: { name: "my-docs" } }));
await call("netlify_update_site", { site_id: "3970e0fe-8564", body: { custom_domain: "docs.example.com" } }, () =>
  netlify.updateSite({ site_id: "3970e0fe-8564", body: { custom_domain: "docs.example.com" } }),
);
await call("netlify_list_deploys", { site_id: "3970e0fe-8564", branch: "main", per_page: 10 }, () =>
  netlify.listSiteDeploys({ site_id: "3970e0fe-8564", branch: "main", per_page: 10 }),
);
await call("netlify_get_deploy", { site_id: "3970e0fe-8564", deploy_id: "5e1b" }, () =>
  netlify.getSiteDeploy({ site_id: "3970e0fe-8564", deploy_id: "5e1b" }),
);
await call("netlify_restore_deploy", { site_id: "3970e0fe-8564", deploy_id: "5e1b" }, () =>
  netlify.restoreSiteDeploy({ site_id: "3970e0fe-8564", deploy_id: "5e1b" }),
);
await call("netlify_cancel_deploy", { deploy_id: "5e1b" }, () => netlify.cancelSiteDeploy({ deploy_id: "5e1b" }));
await call("netlify_start_build", { site_id: "3970e0fe-8564", clear_cache: true }, () =>
  netlify.createSiteBuild({ site_id: "3970e0fe-8564", clear_cache: true }),
);
await call("netlify_list_forms", { site_id: "3970e0fe-8564" }, () => netlify.listSiteForms({ site_id: "3970e0fe-8564" }));
await call("netlify_list_form_submissions", { form_id: "ac00", per_page: 25 }, () =>
  netlify.listFormSubmissions({ form_id: "ac00", per_page: 25 }),
);
await call("netlify_list_environment_variables", { account_id: "team", site_id: "3970e0fe-8564", context_name: "production" }, () =>
  netlify.getEnvVars({ account_id: "team", site_id: "3970e0fe-8564", context_name: "production" }),
);
await call("netlify_list_dns_zones", { account_slug: "team" }, () => netlify.getDnsZones({ account_slug: "team" }));
await call("netlify_list_dns_records", { zone_id: "z1" }, () => netlify.getDnsRecords({ zone_id: "z1" }));
