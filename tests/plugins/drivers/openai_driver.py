"""OpenAI: openai, the Python library of OpenAI."""

from openai import OpenAI
from recording import CREDENTIAL, at, call

client = OpenAI(api_key=CREDENTIAL, base_url=at("https://api.openai.com/v1"), max_retries=0)

with call("openai_list_models", {}):
    client.models.list()
with call("openai_get_model", {"model": "gpt-4o"}):
    client.models.retrieve("gpt-4o")
CHAT = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Say hello & goodbye"}], "temperature": 0}
with call("openai_create_chat_completion", {"body": CHAT}):
    client.chat.completions.create(**CHAT)
with call(
    "openai_create_embedding",
    {"body": {"model": "text-embedding-3-small", "input": "A text"}},
    differs={
        "/body/encoding_format": "The document has no encoding_format; float is the default of the API."
    },
):
    client.embeddings.create(model="text-embedding-3-small", input="A text", encoding_format="float")
with call("openai_moderate_text", {"body": {"input": "Some text"}}):
    client.moderations.create(input="Some text")
IMAGE = {"prompt": "A red fox", "n": 1, "size": "1024x1024"}
with call("openai_create_image", {"body": IMAGE}):
    client.images.generate(**IMAGE)
with call("openai_list_files", {}):
    client.files.list()
with call("openai_get_file", {"file_id": "file-abc"}):
    client.files.retrieve("file-abc")
