// Spotify: @spotify/web-api-ts-sdk, the TypeScript SDK of Spotify.
import { SpotifyApi } from "@spotify/web-api-ts-sdk";
import { at, call, CREDENTIAL } from "./recording.mjs";

const token = { access_token: CREDENTIAL, token_type: "Bearer", expires_in: 3600, refresh_token: "" };
const spotify = SpotifyApi.withAccessToken("client", token, { fetch: (url, options) => fetch(at(String(url)), options) });
const playlist = "3cEYpjA9oz9GiPac4AsH4n";

await call("spotify_search", { q: "artist:Miles Davis album:Kind of Blue", type: ["album", "track"], market: "DE", limit: 5 }, () =>
  spotify.search("artist:Miles Davis album:Kind of Blue", ["album", "track"], "DE", 5),
);
await call("spotify_get_track", { id: "11dFghVXANMlKmJXsNCbNl", market: "DE" }, () =>
  spotify.tracks.get("11dFghVXANMlKmJXsNCbNl", "DE"),
);
await call("spotify_get_album", { id: "4aawyAB9vmqN3uQ7FjRGTy", market: "DE" }, () =>
  spotify.albums.get("4aawyAB9vmqN3uQ7FjRGTy", "DE"),
);
await call("spotify_get_artist", { id: "0TnOYISbd1XYRBk9myaseg" }, () => spotify.artists.get("0TnOYISbd1XYRBk9myaseg"));
await call("spotify_get_artist_top_tracks", { id: "0TnOYISbd1XYRBk9myaseg", market: "DE" }, () =>
  spotify.artists.topTracks("0TnOYISbd1XYRBk9myaseg", "DE"),
);
await call("spotify_get_my_profile", {}, () => spotify.currentUser.profile());
await call("spotify_list_my_playlists", { limit: 20, offset: 40 }, () => spotify.currentUser.playlists.playlists(20, 40));
await call("spotify_list_saved_tracks", { limit: 20, offset: 0, market: "DE" }, () =>
  spotify.currentUser.tracks.savedTracks(20, 0, "DE"),
);
await call("spotify_get_playlist", { playlist_id: playlist, market: "DE", fields: "name,tracks(total)" }, () =>
  spotify.playlists.getPlaylist(playlist, "DE", "name,tracks(total)"),
);
await call("spotify_list_playlist_items", { playlist_id: playlist, market: "DE", fields: "items(track(name))", limit: 50, offset: 50 }, () =>
  spotify.playlists.getPlaylistItems(playlist, "DE", "items(track(name))", 50, 50),
);
const created = { name: "Focus & calm", description: "Made by an agent", public: false };
await call("spotify_create_playlist", { user_id: "smedjan", body: created }, () => spotify.playlists.createPlaylist("smedjan", created));
const uris = ["spotify:track:4iV5W9uYEdYUVa79Axb7Rh"];
await call("spotify_add_to_playlist", { playlist_id: playlist, body: { uris, position: 0 } }, () =>
  spotify.playlists.addItemsToPlaylist(playlist, uris, 0),
);
await call("spotify_get_playback", { market: "DE" }, () => spotify.player.getPlaybackState("DE"));
await call("spotify_list_devices", {}, () => spotify.player.getAvailableDevices());
await call("spotify_start_playback", { device_id: "d1", body: { uris } }, () =>
  spotify.player.startResumePlayback("d1", undefined, uris),
);
await call("spotify_pause_playback", { device_id: "d1" }, () => spotify.player.pausePlayback("d1"));
await call("spotify_skip_to_next", { device_id: "d1" }, () => spotify.player.skipToNext("d1"));
await call("spotify_add_to_queue", { uri: uris[0], device_id: "d1" }, () => spotify.player.addItemToPlaybackQueue(uris[0], "d1"));
await call("spotify_list_recently_played", { limit: 10, after: 1700000000000 }, () =>
  spotify.player.getRecentlyPlayedTracks(10, { type: "after", timestamp: 1700000000000 }),
);
