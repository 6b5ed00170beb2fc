"""Google Contacts: google-api-python-client, with the People API."""

from google_service import service
from recording import call

api = service("people", "v1", "https://people.googleapis.com/")
people = api.people()

with call("contacts_search_contacts", {"query": "ada", "readMask": "names,emailAddresses", "pageSize": 10}):
    people.searchContacts(query="ada", readMask="names,emailAddresses", pageSize=10).execute()
with call("contacts_list_contacts", {"personFields": "names,phoneNumbers", "pageSize": 100}):
    people.connections().list(
        resourceName="people/me", personFields="names,phoneNumbers", pageSize=100
    ).execute()
with call("contacts_get_contact", {"peopleId": "c123", "personFields": "names,addresses"}):
    people.get(resourceName="people/c123", personFields="names,addresses").execute()
PERSON = {
    "names": [{"givenName": "Ada", "familyName": "Lovelace"}],
    "emailAddresses": [{"value": "ada@example.com"}],
}
with call("contacts_create_contact", {"body": PERSON}):
    people.createContact(body=PERSON).execute()
CHANGE = {"etag": "%EgUB", "phoneNumbers": [{"value": "+15558675310"}]}
with call(
    "contacts_update_contact", {"peopleId": "c123", "updatePersonFields": "phoneNumbers", "body": CHANGE}
):
    people.updateContact(resourceName="people/c123", updatePersonFields="phoneNumbers", body=CHANGE).execute()
with call("contacts_search_other_contacts", {"query": "grace", "readMask": "names"}):
    api.otherContacts().search(query="grace", readMask="names").execute()
SOURCES = ["DIRECTORY_SOURCE_TYPE_DOMAIN_PROFILE", "DIRECTORY_SOURCE_TYPE_DOMAIN_CONTACT"]
with call("contacts_search_directory", {"query": "lovelace", "readMask": "names", "sources": SOURCES}):
    people.searchDirectoryPeople(query="lovelace", readMask="names", sources=SOURCES).execute()
with call("contacts_list_groups", {"pageSize": 30}):
    api.contactGroups().list(pageSize=30).execute()
